"""A corpus made on the spot, for tests and for machines without a network: sentences of two little grammars, a domain
and a background, that share most of their words and differ in how often they use them."""

from __future__ import annotations

import random

# Each grammar: symbol -> ways to write it, with how often. Lower case is a word, upper case a symbol.
_COMMON = {
    "DET": "the:6 this:2 that:1 our:1 a:2",
    "ADJ": "new:3 good:2 old:2 great:2 public:2 early:1 small:1 other:1 clear:1 long:1 open:1",
    "PLACE": "house:2 city:2 country:2 north:1 street:1 school:1 market:1 river:1 station:1 island:1",
    "TIME": "today:2 tomorrow:1 yesterday:1 this_year:2 last_week:2 every_day:1 in_the_morning:1",
    "VERB": "wants:2 needs:2 knows:2 sees:1 makes:2 takes:2 gives:1 asks_for:1 talks_about:1 thinks_of:1",
    "WHO": "he:2 she:2 everyone:1 nobody:1 the_man:1 the_woman:1 my_mother:1 a_friend:1 people:1",
    "THING": "money:1 time:1 water:1 work:2 music:1 food:1 story:1 letter:1 book:2 garden:1 answer:1 question:1 "
    "table:1 window:1",
    "NP": "DET_THING:4 DET_ADJ_THING:3 DET_THING_of_DET_PLACE:2",
}
_GRAMMARS = {
    "background": {
        **_COMMON,
        "S": "WHO_VERB_NP:5 NP_is_ADJ:3 WHO_VERB_NP_TIME:2 WHO_lives_in_DET_PLACE:2 it_was_a_ADJ_THING:2",
    },
    "commons": {
        **_COMMON,
        "WHO": "my_honourable_friend:4 the_minister:4 the_government:3 the_house:2 "
        "the_member_for_the_north:1 he:1 she:1",
        "THING": "question:4 bill:4 budget:3 committee:3 answer:2 service:2 policy:2 report:2 "
        "work:1 money:2 school:1 time:1",
        "VERB": "supports:3 opposes:2 welcomes:3 knows:1 asks_for:2 talks_about:2 votes_for:2 needs:1",
        "S": "WHO_VERB_NP:4 i_thank_WHO_for_NP:3 will_WHO_agree_that_NP_is_ADJ:3 WHO_VERB_NP_TIME:2 "
        "i_know_that_WHO_VERB_NP:2",
    },
}  # fmt: skip


class Grammar:
    def __init__(self, name: str) -> None:
        self.ways = {}
        for symbol, text in _GRAMMARS[name].items():
            pairs = [item.rsplit(":", 1) for item in text.split()]
            self.ways[symbol] = ([way.split("_") for way, _ in pairs], [int(often) for _, often in pairs])

    def sentence(self, chance: random.Random) -> list[str]:
        return self._expand("S", chance)

    def _expand(self, symbol: str, chance: random.Random) -> list[str]:
        ways, often = self.ways[symbol]
        words: list[str] = []
        for part in chance.choices(ways, often)[0]:
            words += self._expand(part, chance) if part in self.ways else [part]
        return words


def texts(name: str, n: int, seed: int) -> list[list[str]]:
    """`n` sentences of a grammar."""
    chance, grammar = random.Random(f"{name} {seed}"), Grammar(name)
    return [grammar.sentence(chance) for _ in range(n)]
