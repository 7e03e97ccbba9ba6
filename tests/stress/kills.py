"""kill -9 at moments by chance: the next run makes what it would have made, and nothing else is left. By hand:

    python3 tests/stress/kills.py [--times N] [--seed N] [VERB... | recipe]

A verb runs in a process of its own over the model that it made before; in the moment of its death either that model or
the new one is there, whole. `recipe` kills one stage of run.sh: all its processes, or the shell alone.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from faults import HERE, state, vosk_folder
from recipe import Stages, leftovers, without_times

# over BG (30,000 n-grams) and TEXT; each writes OUT or what is named after it
VERBS = {
    "train": "train --order 3 --counts-out OUT.counts text OUT.arpa.gz",
    "adapt": "adapt --min-counts 1 --sigma2 1 --constraints-out OUT.tsv bg text OUT.arpa.gz",
    "sweep": "adapt --min-counts 1,2 --sigma2 none bg text OUT.{}.arpa",
    "delta": "adapt --min-counts 1 --sigma2 1 --delta OUT.delta bg text",
    "mix": "mix --weights 0.5,0.5 bg in OUT.arpa",
    "vosk": "vosk adapt --ppl text vosk text OUT.vosk",
}


def prepare() -> None:
    """Inputs in the current folder."""
    from mdi.cli import main

    chance = random.Random(1)
    words = [f"w{i}" for i in range(2000)]
    weights = [1 / (i + 1) for i in range(2000)]

    def text(name: str, sentences: int) -> None:
        lines = (" ".join(chance.choices(words, weights, k=8)) for _ in range(sentences))
        Path(name).write_text("".join(f"{line}\n" for line in lines))

    text("many", 4000)
    text("text", 400)
    assert main(["train", "--order", "3", "--min-counts", "1", "many", "bg"]) == 0
    assert main(["train", "--order", "2", "--min-counts", "1", "text", "in"]) == 0
    Path("words.txt").write_text(
        "".join(f"{word} {i}\n" for i, word in enumerate(["<eps>", *words, "<unk>", "#0", "<s>", "</s>"]))
    )
    vosk_folder(Path("vosk"), "words.txt", "bg")
    Path("temporary").mkdir()


def normal(folder: Path) -> dict[str, bytes]:
    return {name: without_times(name, data) for name, data in state(folder).items()}


def kill_verb(verb: str, times: int, chance: random.Random) -> tuple[int, list[str]]:
    """(runs that died, what went wrong)"""
    folder, command = Path.cwd(), [sys.executable, "-m", "mdi", *VERBS[verb].split()]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "TMPDIR": str(folder / "temporary")}

    def run() -> float:
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return time.monotonic() - began

    run()
    seconds = min(run(), run())
    made = normal(folder)
    died, wrong = 0, []
    for number in range(3 * times):
        if died == times:
            break
        pause = seconds * chance.uniform(0.1, 1.0)  # before that nothing but libraries is loaded
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(pause)
        process.kill()
        if process.wait() != -signal.SIGKILL:
            continue
        died += 1
        after = normal(folder)
        if broken := [name for name, data in made.items() if after.get(name) != data]:
            wrong.append(f"{verb} no. {number} killed after {pause:.3f} s: {broken} are not what they were")
        run()
        after = normal(folder)
        if after != made:
            odd = sorted(name for name in {*after, *made} if after.get(name) != made.get(name))
            wrong.append(f"{verb} no. {number} killed after {pause:.3f} s, next run: {odd}")
        if died % 10 == 0:
            print(f"{verb}: {died} killed, {len(wrong)} wrong", file=sys.stderr, flush=True)
    for name in set(made):
        if name.startswith("OUT"):
            (folder / name).unlink()
    return died, wrong


def kill_recipe(times: int, chance: random.Random) -> tuple[int, list[str]]:
    died, wrong = 0, []
    with tempfile.TemporaryDirectory(prefix="mdi-kills-") as scratch:
        stages = Stages(Path(scratch))
        moments = [stage for stage in range(8) for _ in range(max(1, round(4 / max(1.0, stages.seconds[stage]))))]
        for number in range(times):
            stage, whole = chance.choice(moments), chance.random() < 0.7
            stages.begin(stage)
            process = stages.start(stage, {})
            pause = stages.seconds[stage] * chance.random()
            time.sleep(pause)
            (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)  # its jobs may go on, and are waited for
            died += process.wait() == -signal.SIGKILL
            again = stages.start(stage, {}).wait()
            after, expected = stages.outcome(), stages.after[stage]
            odd = sorted(name for name in {*after, *expected} if after.get(name) != expected.get(name))
            if again or odd or leftovers(stages.work):
                what = f"stage {stage} no. {number} killed after {pause:.2f} s ({whole=}): then exit code {again}"
                wrong.append(f"{what}, {odd} {leftovers(stages.work)}\n{stages.said()[-800:] if again else ''}")
                print(wrong[-1], file=sys.stderr, flush=True)
            print(number + 1, stage, f"{pause:.2f}", died, len(wrong), sep="\t", flush=True)
    return died, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="VERB")
    parser.add_argument("--times", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="mdi-kills-") as scratch:
        os.chdir(scratch)
        if args.what != ["recipe"]:
            prepare()
        for what in args.what or list(VERBS):
            chance = random.Random(f"{what} {args.seed}")
            died, wrong = kill_recipe(args.times, chance) if what == "recipe" else kill_verb(what, args.times, chance)
            print(what, args.times, died, len(wrong), sep="\t", flush=True)
            for text in wrong[:20]:
                print(text, file=sys.stderr, flush=True)
            bad += len(wrong)
        os.chdir("/")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    sys.exit(main())
