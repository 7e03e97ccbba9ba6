"""Letters to phones, learnt from a language whose spelling has rules."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from spelling import lexicon, say, words

from mdi.cli import main
from mdi.errors import MdiError
from mdi.speech import g2p as module
from mdi.speech.g2p import G2p, load_g2p, train_g2p
from mdi.speech.lexicon import Lexicon, write_lexicon


@pytest.fixture(scope="module")
def model() -> G2p:
    return train_g2p(lexicon())


def test_rules_of_spelling_are_learnt(model: G2p) -> None:
    new = [word for word in words(1200, seed=2) if word not in lexicon()][:300]
    said = model.pronounce(new)
    right = sum(ways[0][0] == say(word) for word, ways in zip(new, said, strict=True))
    among = sum(say(word) in [phones for phones, _ in ways] for word, ways in zip(new, said, strict=True))
    assert right >= 0.95 * len(new)
    assert among >= 0.98 * len(new)
    assert all(0.0 <= p <= 1.0 for ways in said for _, p in ways)
    assert all(a[1] >= b[1] for ways in said for a, b in itertools.pairwise(ways))


def all_cuts(word: str, units: list[module.Unit]) -> list[list[module.Unit]]:
    if not word:
        return [[]]
    return [
        [unit, *rest] for unit in units if word.startswith(unit[0]) for rest in all_cuts(word[len(unit[0]) :], units)
    ]


def test_the_search_finds_what_brute_force_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cut of short words into units, each scored by the models' own prob()."""
    monkeypatch.setattr(module, "BEAM", 4000)
    monkeypatch.setattr(module, "WIDTH", 1e9)
    monkeypatch.setattr(module, "CANDIDATES", 1000)
    model = train_g2p(lexicon(60))
    first_to_last, last_to_first = model.units_model(False), model.units_model(True)
    number = {unit: str(i) for i, unit in enumerate(model.units)}
    for word in ("cen", "xote", "shi"):
        forward: dict[tuple[str, ...], float] = {}
        best: dict[tuple[str, ...], tuple[float, list[str]]] = {}
        for cut in all_cuts(word, model.units):
            names = [number[unit] for unit in cut]
            p = math.exp(first_to_last.log_prob([*names, "</s>"], ["<s>"]))
            phones = tuple(itertools.chain.from_iterable(said for _, said in cut))
            forward[phones] = forward.get(phones, 0.0) + p
            best[phones] = max(best.get(phones, (0.0, [])), (p, names))
        both = {
            phones: 0.5 * (math.log(p) + last_to_first.log_prob([*best[phones][1][::-1], "</s>"], ["<s>"]))
            for phones, p in forward.items()
        }
        total = sum(map(math.exp, both.values()))
        wanted = sorted(((math.exp(value) / total, phones) for phones, value in both.items() if phones), reverse=True)
        (found,) = model.pronounce([word])
        assert [phones for phones, _ in found] == [phones for _, phones in wanted[:3]]
        np.testing.assert_allclose([p for _, p in found], [p for p, _ in wanted[:3]], rtol=1e-9)


def test_letters_in_other_cases_and_with_accents(model: G2p) -> None:
    plain, odd, none = model.pronounce(["cabe", "CÀbÉ", "шабе"])
    assert odd == plain
    assert none == []
    assert model.pronounce(["", "a" * 300]) == [[], []]
    assert model.pronounce([]) == []


def test_korean_syllables_are_read_by_their_letters() -> None:
    """A sign has up to three letters and phones; syllables of the test are in no word of the lexicon."""
    chance = np.random.default_rng(3)

    def word(keep: int) -> tuple[str, tuple[str, ...]]:
        text, said = "", list[str]()
        while len(text) < 3:
            first, vowel, last = chance.integers((6, 5, 4)).tolist()
            if (first + vowel + last) % 5 == keep:
                text += chr(0xAC00 + (first * 21 + vowel) * 28 + last)
                said += [f"F{first}", f"V{vowel}", *([f"L{last}"] if last else [])]
        return text, tuple(said)

    known = {text: [said] for text, said in (word(keep) for _ in range(200) for keep in (0, 1, 2, 3))}
    tests = dict(word(4) for _ in range(20))
    guesses = train_g2p(known).pronounce(list(tests), 1)
    assert [found[0][0] for found in guesses] == list(tests.values())


def test_a_saved_model_says_the_same(model: G2p, tmp_path: Path) -> None:
    for name in ("model.g2p", "model.g2p.gz"):
        model.save(str(tmp_path / name))
        again = load_g2p(str(tmp_path / name))
        assert again.units == model.units
        assert again.pronounce(["xashe", "cicu"]) == model.pronounce(["xashe", "cicu"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mdi-g2p 1", "mdi-g2p 9", "does not begin with"),
        ("units ", "units -", "damaged"),
        ("units ", "units 1", "damaged"),
        ("\na AA\n", "\nabc AA\n", "damaged"),
        ("\na AA\n", "\nz AA\n", "damaged"),
        ("words ", "words 9", "cut off"),
        ("words ", "words x", "damaged"),
    ],
)
def test_a_damaged_model(model: G2p, tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "model.g2p"
    model.save(str(path))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(MdiError, match=said):
        load_g2p(str(path))


def test_numbers_that_are_no_units(model: G2p, tmp_path: Path) -> None:
    path = tmp_path / "model.g2p"
    model.save(str(path))
    text = path.read_text()
    for wrong in ("99999", "-1", "x", "1.5", ""):
        path.write_text(text.rsplit("\n", 2)[0] + f"\n{wrong}\n")
        with pytest.raises(MdiError, match="make it again"):
            load_g2p(str(path))


def test_nothing_to_learn_from() -> None:
    with pytest.raises(MdiError, match="no words to learn"):
        train_g2p(Lexicon())
    with pytest.raises(MdiError, match="none of"):
        train_g2p(Lexicon({"w": [("D", "AH", "B", "AH", "L", "Y", "UW")]}))


def test_verbs(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    path = {name: str(tmp_path / name) for name in ("lexicon.txt", "m.g2p.gz", "words", "out.txt", "out.tsv", "mine")}
    write_lexicon(Lexicon({**lexicon(), "<unk>": [("SPN",)]}), path["lexicon.txt"])
    Path(path["words"]).write_text("cabo 7\nшш\n31\n")
    Path(path["mine"]).write_text("cabo B OW\n")
    assert main(["g2p", "train", path["lexicon.txt"], path["m.g2p.gz"]]) == 0
    assert "SPN" not in load_g2p(path["m.g2p.gz"]).phones
    assert main(["g2p", "apply", "--n-best", "1", path["m.g2p.gz"], path["words"]]) == 0
    said = capfd.readouterr()
    assert said.out == "cabo K AA B OW\n"
    assert "2 words cannot be said, such as 'шш', '31'" in said.err
    options = ["--lexicon", path["lexicon.txt"], "--given", path["mine"]]
    assert main(["g2p", "apply", *options, path["m.g2p.gz"], path["words"], path["out.tsv"]]) == 0
    assert Path(path["out.tsv"]).read_text().splitlines()[1].startswith("cabo\t7\tB OW\t1.00\tgiven\t")
    assert main(["g2p", "apply", *options[2:], path["m.g2p.gz"], path["words"]]) == 2
    assert "--given without --lexicon" in capfd.readouterr().err
    assert main(["g2p", "apply", path["lexicon.txt"], path["words"]]) == 1
    assert "expected a model of mdi g2p train" in capfd.readouterr().err
