"""Line charts as SVG text: enough for a path of perplexities or a convergence curve, with nothing to install."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 70, 210, 44, 56


@dataclass(frozen=True)
class Line:
    label: str
    x: list[float]
    y: list[float]
    notes: list[str] | None = None  # one a point, shown when the pointer rests on it


def chart(
    title: str,
    x_label: str,
    y_label: str,
    lines: list[Line],
    levels: dict[str, float] | None = None,
    log_x: bool = False,
) -> str:
    """`levels` are horizontal lines to compare with."""
    levels = levels or {}
    xs = [x for line in lines for x in line.x]
    ys = [y for line in lines for y in line.y] + list(levels.values())
    across = _Axis(xs, LEFT, WIDTH - RIGHT, log_x)
    up = _Axis(ys, HEIGHT - BOTTOM, TOP, False)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for value, at in up.ticks():
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value, at in across.ticks():
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 5}" stroke="black"/>'
        )
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{value:,.10g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>'
    )
    parts.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    parts.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="black"/>')
    legend = TOP + 8
    for i, line in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)]
        points = [(across.place(x), up.place(y)) for x, y in zip(line.x, line.y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        notes = line.notes or [f"{x:g}: {y:g}" for x, y in zip(line.x, line.y, strict=True)]
        for (x, y), note in zip(points, notes, strict=True):
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{escape(note)}</title></circle>'
            )
        parts += _entry(legend, colour, line.label, "")
        legend += 22
    for i, (label, value) in enumerate(levels.items(), len(lines)):
        colour, at = COLOURS[i % len(COLOURS)], up.place(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{colour}" stroke-dasharray="6 4"/>'
        )
        parts += _entry(legend, colour, f"{label} {value:.5g}", ' stroke-dasharray="6 4"')
        legend += 22
    return "\n".join([*parts, "</svg>", ""])


def _entry(y: int, colour: str, label: str, style: str) -> list[str]:
    x = WIDTH - RIGHT + 14
    return [
        f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{style}/>',
        f'<text x="{x + 30}" y="{y + 4}">{escape(label)}</text>',
    ]


class _Axis:
    """Values to places on the page, and round values to mark."""

    def __init__(self, values: list[float], start: float, end: float, log: bool) -> None:
        self.log, self.start, self.end = log, start, end
        low, high = min(values), max(values)
        if log:
            self.low, self.high = math.log10(low), math.log10(high)
        else:
            margin = 0.05 * (high - low) or abs(high) * 0.05 or 1.0
            self.low, self.high = low - margin, high + margin
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def place(self, value: float) -> float:
        share = ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, float]]:
        if self.log:
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            steps = (1,) if self.high - self.low > 3 else (1, 3) if self.high - self.low > 1 else (1, 2, 3, 5, 7)
            values = [step * 10.0**power for power in powers for step in steps]
        else:
            step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
            step *= next(m for m in (1, 2, 5, 10) if (self.high - self.low) / (m * step) <= 8)
            values = [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        inside = ((value, math.log10(value) if self.log else value) for value in values)
        return [(value, self.place(value)) for value, at in inside if self.low - 1e-9 <= at <= self.high + 1e-9]
