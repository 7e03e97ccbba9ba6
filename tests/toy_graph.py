"""A small Vosk folder, made as Kaldi makes one: lexicon, left biphones, transition model, HCLr.fst and Gr.fst.

Built with pywrapfst and by the definitions, not with the code of mdi that adds words. The
oracle for a graph with more words is a graph that is made anew of the larger lexicon: see `different_sentences`.
"""

import json
import math
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

HALF = math.log(2.0)
LEXICON = {
    "ab": ["a b"],
    "abc": ["a b c"],
    "ba": ["b a"],
    "cab": ["c a b", "c b"],
    "a": ["a"],
    "bee": ["b d d"],
    "bea": ["b d d"],
    "dac": ["d a c"],
    "dab": ["d a b"],
    "cad": ["c a d"],
    "bad": ["b a d"],
    "adac": ["a d a c"],
    "db": ["d b"],
    "bcda": ["b c d a"],
    "cbd": ["c b d"],
    "ccdb": ["c c d b"],
}
# So many more words that every pair of phones occurs at every place where one may.
FULL = {
    **LEXICON,
    **{
        f"{''.join(w)}{n}": [" ".join(w)] for n in (1, 2, 4) for w in product("abcd", repeat=n) if n < 4 or w[0] == w[2]
    },
}
EPSILON, DISAMBIGUATION = "<eps>", "#0"
_POSITIONS = ("begin", "end", "internal", "singleton")
_BEGIN, _END, _INTERNAL, _SINGLETON = range(4)
_SIL = 1
ArcTuple = tuple[int, int, int, float, int]  # source, input and output label, cost, destination


@dataclass
class Toy:
    """`positions`: phones depend on the position in the word. `epsilons`: states are split by arcs that read nothing,
    as in older models, instead of copies. `pushed`: weights are moved about."""

    lexicon: Mapping[str, Sequence[str]] = field(default_factory=lambda: LEXICON)
    positions: bool = True
    epsilons: bool = False
    pushed: bool = False
    contexts: int = 3  # kinds of left phones
    new: Mapping[str, Sequence[str]] = field(default_factory=dict)  # words with labels after all others

    def __post_init__(self) -> None:
        self.names = ["a", "b", "c", "d"]
        self.words = [EPSILON, *self.lexicon, DISAMBIGUATION]
        self.labels = {word: i for i, word in enumerate(self.words)}
        self.first_new = len(self.words) + 2  # after final_label and </s>
        self.labels |= {word: self.first_new + i for i, word in enumerate(self.new)}
        n_forms = 4 if self.positions else 1
        self.form = {name: [2 + n_forms * i + k % n_forms for k in range(4)] for i, name in enumerate(self.names)}
        self.n_phones = 1 + n_forms * len(self.names)
        # phone p after a phone of kind c: tuple (p - 1) * contexts + c, transition-ids 2 * tuple + 1 (loop), + 2
        self.n_tids = 2 * self.n_phones * self.contexts
        self.disambiguation = [self.n_tids + 1 + k for k in range(100)]

    def tid(self, left: int, phone: int) -> int:
        return 2 * ((phone - 1) * self.contexts + (left * 7 + phone) % self.contexts) + 2

    def numbers(self, way: str) -> list[int]:
        names = way.split()
        if len(names) == 1:
            return [self.form[names[0]][_SINGLETON]]
        places = [_BEGIN] + [_INTERNAL] * (len(names) - 2) + [_END]
        return [self.form[name][place] for name, place in zip(names, places, strict=True)]

    # ---- the lexicon as arcs: (state, phone or -disambiguation symbol, word, cost, state)

    def _lexicon_arcs(self) -> list[ArcTuple]:
        start, loop, silence = 0, 1, 2
        arcs = [
            (start, 0, 0, HALF, loop),
            (start, 0, 0, HALF, silence),
            (silence, _SIL, 0, 0.0, 3),
            (3, -2, 0, 0.0, loop),
            (loop, -1, self.labels[DISAMBIGUATION], 0.0, loop),
        ]
        lexicon = {**self.lexicon, **self.new}
        ways = [(word, tuple(self.numbers(way))) for word, all_ways in lexicon.items() for way in all_ways]
        taken: dict[tuple[int, ...], int] = {}
        state = 4
        for word, way in ways:
            ambiguous = sum(other[: len(way)] == way for _, other in ways) > 1
            symbols: list[int] = list(way)
            if ambiguous:
                taken[way] = taken.get(way, 0) + 1
                symbols.append(-2 - taken[way])
            at = loop
            for k, symbol in enumerate(symbols):
                label = self.labels[word] if k == 0 else 0
                if k < len(symbols) - 1:
                    arcs.append((at, symbol, label, 0.0, state))
                    at, state = state, state + 1
                else:
                    arcs += [(at, symbol, label, HALF, loop), (at, symbol, label, HALF, silence)]
        return arcs

    def _without_loops(self) -> Any:
        """The graph in transition-ids, deterministic and minimal."""
        import pywrapfst as openfst

        arcs = self._lexicon_arcs()
        out: dict[int, list] = {}
        for arc in arcs:
            out.setdefault(arc[0], []).append(arc)
        fst = openfst.VectorFst()
        number: dict[tuple[int, int], int] = {}
        waiting = [(0, 0)]

        def at(pair: tuple[int, int]) -> int:
            if pair not in number:
                number[pair] = fst.add_state()
                waiting.append(pair)
            return number[pair]

        waiting.clear()
        fst.set_start(at((0, 0)))
        while waiting:
            q, left = waiting.pop()
            source = number[q, left]
            if q == 1:
                fst.set_final(source, 0.0)
            for _, symbol, word, cost, to in out.get(q, []):
                i = self.tid(left, symbol) if symbol > 0 else 0 if symbol == 0 else self.disambiguation[-symbol - 1]
                dest = at((to, symbol if symbol > 0 else left))
                fst.add_arc(source, openfst.Arc(i, word, cost, dest))
        fst.rmepsilon()
        fst = openfst.determinize(fst, det_type="functional")
        mapper = openfst.EncodeMapper("standard", encode_labels=True, encode_weights=True)
        fst.encode(mapper)
        fst.minimize()
        fst.decode(mapper)
        return fst

    # ---- arcs as tuples (source, ilabel, olabel, cost, dest), final costs by state, start

    def arcs(self) -> tuple[list[ArcTuple], dict[int, float], int]:
        fst = self._without_loops()
        plain, final = [], {}
        for s in fst.states():
            weight = float(fst.final(s))
            if math.isfinite(weight):
                final[s] = weight
            plain += [(s, a.ilabel, a.olabel, float(a.weight), a.nextstate) for a in fst.arcs(s)]
        # a state for each transition-id by which one is entered (0: another symbol, or the start)
        entered = sorted({(d, i if i <= self.n_tids else 0) for _, i, _, _, d in plain} | {(fst.start(), 0)})
        number = {key: k for k, key in enumerate(entered)}
        size = len(number)
        bare: dict[int, int] = {}
        arcs, ends = [], {}
        for (s, t), k in number.items():
            source, more = k, 0.0
            if t:
                arcs.append((k, t - 1, 0, HALF, k))
                more = HALF
                if self.epsilons:
                    to = number[s, 0] if (s, 0) in number else bare.setdefault(s, size + len(bare))
                    arcs.append((k, 0, 0, HALF, to))
                    continue
            if s in final:
                ends[source] = final[s] + more
            for _, i, o, w, d in (arc for arc in plain if arc[0] == s):
                arcs.append((source, i, o, w + more, number[d, i if i <= self.n_tids else 0]))
        for s, k in bare.items():
            if s in final:
                ends[k] = final[s]
            arcs += [(k, i, o, w, number[d, i if i <= self.n_tids else 0]) for x, i, o, w, d in plain if x == s]
        start = number[fst.start(), 0]
        if self.pushed:  # potentials: 0 at the start
            v = np.random.default_rng(3).uniform(-2.0, 2.0, size + len(bare))
            v[start] = 0.0
            arcs = [(s, i, o, w + (v[d] - v[s] if s != d else 0.0), d) for s, i, o, w, d in arcs]
            ends = {s: w - v[s] for s, w in ends.items()}
        return arcs, ends, start

    # ---- files

    def transition_model(self) -> bytes:
        def number(*values: int) -> bytes:
            return b"".join(b"\4" + struct.pack("<i", v) for v in values)

        def vector(values: list[int]) -> bytes:
            return b"\4" + struct.pack("<i", len(values)) + struct.pack(f"<{len(values)}i", *values)

        half = b"\4" + struct.pack("<f", 0.5)
        data = b"\0B<TransitionModel> <Topology> " + vector(list(range(1, self.n_phones + 1)))
        data += vector([-1] + [0] * self.n_phones) + number(-1, 1)
        data += number(2, 0, 1, 2, 0) + half + number(1) + half + number(-1, -1, 0)
        data += b"</Topology> <Tuples> " + number(self.n_phones * self.contexts)
        for k in range(self.n_phones * self.contexts):
            data += number(k // self.contexts + 1, 0, 2 * k, 2 * k + 1)
        return data + b"</Tuples> <LogProbs> FV " + struct.pack("<i", 0) + b"and the acoustic model"

    def graph(self) -> bytes:
        """HCLr.fst, with sets of labels by their definition."""
        arcs, final, start = self.arcs()
        return lookahead_bytes(arcs, final, start, len(self.words))  # labels are below that

    def write(self, folder: Path, phones: bool = True) -> Path:
        """The files, with a language model of sentences of the words; phones.txt if wanted."""
        from mdi.fst.formats import write_lm
        from mdi.lm.train import train

        (folder / "am").mkdir(parents=True)
        (folder / "graph" / "phones").mkdir(parents=True)
        (folder / "conf").mkdir()
        (folder / "conf" / "model.conf").write_text("--beam=10.0\n--lattice-beam=2.0\n")
        (folder / "am" / "final.mdl").write_bytes(self.transition_model())
        (folder / "graph" / "HCLr.fst").write_bytes(self.graph())
        (folder / "graph" / "disambig_tid.int").write_text("".join(f"{i}\n" for i in self.disambiguation))
        if self.positions:
            rows = [f"{_SIL} nonword"] + [f"{form[k]} {_POSITIONS[k]}" for form in self.form.values() for k in range(4)]
            (folder / "graph" / "phones" / "word_boundary.int").write_text("\n".join(rows) + "\n")
        if phones:
            rows = [f"{EPSILON} 0", f"SIL {_SIL}"]
            for name, form in self.form.items():
                rows += [f"{name}_{'BEIS'[k]} {form[k]}" if self.positions else f"{name} {form[k]}" for k in range(4)]
            rows = list(dict.fromkeys(rows))
            (folder / "graph" / "phones.txt").write_text("\n".join(rows) + "\n")
        table = folder / "words.tmp"
        rows = [f"{word} {i}" for word, i in self.labels.items()]
        n = len(self.words)
        table.write_text("\n".join([*rows, f"</s> {n + 1}"]) + "\n")
        rng = np.random.default_rng(5)
        words = [word for word in self.words if word in self.lexicon]
        text = [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(200)] + words
        write_lm(
            train(text, 2, vocab=words, smoothing="wb", oov="drop"),
            str(folder / "graph" / "Gr.fst"),
            "ngram",
            str(table),
        )
        table.unlink()
        return folder


def lookahead_bytes(arcs: list[ArcTuple], final: dict[int, float], start: int, n_labels: int) -> bytes:
    """An olabel_lookahead FST, by its description. final_label: n_labels."""
    n = 1 + max([start, *final, *(max(a[0], a[4]) for a in arcs)])
    arcs = sorted(arcs, key=lambda a: (a[0], a[2]))

    def header(kind: bytes, version: int, *numbers: int) -> bytes:
        head = struct.pack("<ii", 2125659606, len(kind)) + kind + struct.pack("<i", 8) + b"standard"
        return head + struct.pack("<iiQqqq", version, 0, 0x25A566A60001, *numbers)

    data = header(b"olabel_lookahead", 1, -1, 0, 0) + struct.pack("<i", 446681434)
    data += header(b"const", 2, start, n, len(arcs))
    at = 0
    for s in range(n):
        own = [a for a in arcs if a[0] == s]
        eps = sum(a[1] == 0 for a in own), sum(a[2] == 0 for a in own)
        data += struct.pack("<fIIII", final.get(s, math.inf), at, len(own), *eps)
        at += len(own)
    data += b"".join(struct.pack("<iifi", i, o, w, d) for _, i, o, w, d in arcs)
    data += bytes([1, 0, 1, 0, 0]) + struct.pack("<iq", n_labels, n)
    for labels in reachable(arcs, final, n, n_labels):
        intervals: list[list[int]] = []
        for label in sorted(labels):
            if intervals and intervals[-1][1] == label:
                intervals[-1][1] += 1
            else:
                intervals.append([label, label + 1])
        data += struct.pack("<q", len(intervals)) + b"".join(struct.pack("<ii", *i) for i in intervals)
        data += struct.pack("<i", len(labels))
    return data


def reachable(arcs: list[ArcTuple], final: dict[int, float], n: int, final_label: int) -> list[set[int]]:
    """The labels that can come first from each state, by the definition: until nothing changes."""
    sets: list[set[int]] = [{final_label} if s in final else set() for s in range(n)]
    for s, _, o, _, _ in arcs:
        if o:
            sets[s].add(o)
    changed = True
    while changed:
        changed = False
        for s, _, o, _, d in arcs:
            if not o and not sets[d] <= sets[s]:
                sets[s] |= sets[d]
                changed = True
    return sets


def arcs_of(fst: Any) -> tuple[list[ArcTuple], dict[int, float], int]:
    """The arcs of an mdi.fst.openfst.Arcs as tuples."""
    columns = (fst.source, fst.ilabel, fst.olabel, fst.weight[:, 0], fst.dest)
    final = {s: float(w) for s, w in enumerate(fst.final[:, 0]) if math.isfinite(w)}
    return list(zip(*(c.tolist() for c in columns), strict=True)), final, fst.start


_SAME = """
import json, pywrapfst as openfst, sys
def fst(arcs, final, start, n_tids):
    f = openfst.VectorFst()
    n = 1 + max([start, *map(int, final), *(max(a[0], a[4]) for a in arcs)])
    f.add_states(n); f.set_start(start)
    for s, i, o, w, d in arcs: f.add_arc(s, openfst.Arc(i if i <= n_tids else 0, o, w, d))
    for s, w in final.items(): f.set_final(int(s), w)
    return f.arcsort("olabel")
def spoken(graph, words):
    a = openfst.VectorFst(); s = a.add_state(); a.set_start(s)
    for w in words:
        d = a.add_state(); a.add_arc(s, openfst.Arc(w, w, 0, d)); s = d
    a.set_final(s)
    x = openfst.compose(graph, a); x.project("input"); x.rmepsilon()
    if x.num_states() == 0: return x
    x = openfst.determinize(x); x.minimize()
    return x
ask = json.load(sys.stdin)
one, two = (fst(*ask[k], ask["n_tids"]) for k in ("one", "two"))
different = []
for words in ask["sentences"]:
    a, b = spoken(one, words), spoken(two, words)
    if a.num_states() == 0 or b.num_states() == 0:
        if a.num_states() != b.num_states(): different.append(words)
    elif not openfst.equivalent(a, b, delta=0.01): different.append(words)
json.dump(different, sys.stdout)
"""


def different_sentences(one: Any, two: Any, n_tids: int, sentences: list[list[int]]) -> list[list[int]]:
    """Sequences of labels for which two graphs (arcs, final, start) do not accept the same transition-ids at the same
    costs, by pywrapfst. In a process of its own: libvosk hangs beside another OpenFst."""
    ask = {"one": one, "two": two, "n_tids": n_tids, "sentences": sentences}
    done = subprocess.run([sys.executable, "-c", _SAME], input=json.dumps(ask), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
