"""HCLG.fst for the built-in English acoustic model, and beside it words.txt, phones.txt, L_disambig.fst and G.fst.

LM is an ARPA model or a G.fst that was made with the same --words. Without --lexicon the pronunciations are those of
CMU's dictionary; without --words the table has the words of the lexicon that the model knows.
"""

from __future__ import annotations

import argparse

from mdi.commands.options import check_outputs, read_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lm", metavar="LM", help="model in any form, or a G.fst that was made with --words")
    parser.add_argument("out", metavar="DIR", help="folder to write; made if need be")
    parser.add_argument(
        "--lexicon", metavar="FILE", help="'word phone phone ...' per line, several lines for several pronunciations"
    )
    parser.add_argument("--words", metavar="words.txt", help="Kaldi's symbol table; must have #0")
    parser.add_argument("--max-dropped", type=float, default=0.2, metavar="SHARE",
                        help="refuse a model that loses more than this share of its n-grams (0.2)")  # fmt: skip


def run(args: argparse.Namespace) -> None:
    from pathlib import Path

    from mdi.errors import MdiError, examples
    from mdi.files import make_folder, writing
    from mdi.fst.grammar import grammar, write_fst
    from mdi.fst.openfst import from_bytes, is_fst
    from mdi.fst.symbols import check_dropped, make_symbols, read_symbols
    from mdi.progress import say
    from mdi.speech.acoustic import read_acoustic_model
    from mdi.speech.graph import make_graph, phone_table
    from mdi.speech.lexicon import dictionary, lexicon_fst, read_lexicon

    made = [Path(args.out) / name for name in ("words.txt", "phones.txt", "L_disambig.fst", "G.fst", "HCLG.fst")]
    check_outputs(args, beside=[str(path) for path in made if path.exists()], folder=args.out)
    ready = is_fst(args.lm)
    if ready and not args.words:
        raise MdiError(f"{args.lm}: a G.fst without --words; expected the table that it was made with")
    acoustic = read_acoustic_model()
    lexicon = read_lexicon(args.lexicon, acoustic) if args.lexicon else dictionary(acoustic)
    if ready:
        symbols = read_symbols(args.words)
        acceptor = from_bytes(Path(args.lm).read_bytes(), args.lm)
    else:
        model = read_model(args.lm, args, closed=False)
        if args.words:
            symbols = read_symbols(args.words)
        else:
            symbols = make_symbols([word for word in lexicon.words() if word in model])
        result = grammar(model, symbols)
        if result.dropped:
            say(f"mdi graph: {check_dropped(result, args.lm, symbols, args.max_dropped)}; dropped")
        acceptor = result.arcs
    spoken = lexicon_fst(lexicon, symbols, acoustic)
    pronounced = {word for word, _ in lexicon.entries}
    mute = [w for w in symbols.ids if w not in pronounced and w[0] not in "<#"]
    if mute:
        say(
            f"mdi graph: {len(mute):,} words of the table have no pronunciation and cannot be recognised: "
            f"{examples(mute)}"
        )
    folder = make_folder(args.out)
    with writing(str(folder / "words.txt")) as stream:
        stream.write("".join(f"{w} {i}\n" for w, i in symbols.ids.items()).encode("utf-8", "surrogateescape"))
    with writing(str(folder / "phones.txt")) as stream:
        stream.write(phone_table(spoken).encode())
    write_fst(spoken.arcs, str(folder / "L_disambig.fst"), "olabel")
    write_fst(acceptor, str(folder / "G.fst"))
    write_fst(
        make_graph(spoken, from_bytes((folder / "G.fst").read_bytes()), acoustic),
        str(folder / "HCLG.fst"),
        kind="const",
    )
