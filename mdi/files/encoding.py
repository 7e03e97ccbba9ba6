"""Text in another encoding than UTF-8: where it is, and the command that converts it."""

import shlex

UTF16 = (b"\xff\xfe", b"\xfe\xff")  # byte-order marks


def not_utf8(path: object, data: bytes, number: int = 1) -> str:
    """What to say of lines that are not UTF-8, or nothing; `number` is that of the first one in the file."""
    if number == 1 and data[:2] in UTF16:
        return f"{path}: UTF-16; expected text in UTF-8. Convert it: {_convert(path, 'utf-16')}"
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data[data.rfind(b"\n", 0, error.start) + 1 :].split(b"\n", 1)[0].decode("latin-1")
        where = number + data.count(b"\n", 0, error.start)
        return (
            f"{path}:{where}: not UTF-8: '{line.strip()[:80]}' if it is Latin-1; "
            f"expected text in UTF-8. Convert it: {_convert(path, 'latin1')}"
        )
    return ""


def _convert(path: object, encoding: str) -> str:
    name = str(path)
    if name.endswith(".gz"):
        return f"gzip -dc {shlex.quote(name)} | iconv -f {encoding} -t utf-8 > {shlex.quote(name[:-3])}.utf8"
    return f"iconv -f {encoding} -t utf-8 {shlex.quote(name)} > {shlex.quote(name)}.utf8"
