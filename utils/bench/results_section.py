"""One section of utils/bench/RESULTS.md, between markers of its own: a benchmark run again replaces what it wrote
before, nothing else."""

import re
from pathlib import Path


def replace_section(path: str, name: str, title: str, command: str, body: str) -> None:
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n## {title}\n\n{command}\n\n{body.strip()}\n{end}"
    file = Path(path)
    text = file.read_text(encoding="utf-8") if file.exists() else "# Results\n"
    old = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    text = old.sub(lambda _: section, text) if old.search(text) else f"{text.rstrip()}\n\n{section}\n"
    file.write_text(text, encoding="utf-8")
