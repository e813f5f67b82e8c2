#!/usr/bin/env python3
"""plot_quant.py - the table of what quantization costs as a plot: KL divergence over that of the best ggml type.

    tools/plot_quant.py src/tensor/README.md -o tools/quant_kl.svg

Reads the table that tools/measure_quant.py writes, in whatever text it stands. The best ggml type of a size is the
line through those that no smaller or equal type beats, straight in bits and in the logarithm of KL. Dots are models;
lines go through the geometric means of a family's types. Needs no library.
"""
import argparse
import math
import re

BELOW = ("iq3_xxs",)  # where a line of another family passes above
FAMILIES = (  # label, colour, whose, the types, where their names stand
    ("ours, two levels", "#c0392b", "ours", ("q2_t", "q3_t", "q3h_t", "q4_t"), 22),
    ("ours, one level", "#c77700", "ours", ("q2_b32", "q3h_b64", "q4_b64", "q4_b32", "q5_b64", "q6_b64"), -12),
    ("ggml k", "#2468b0", "ggml", ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k"), 22),
    ("ggml iq", "#2e8b57", "ggml", ("iq2_s", "iq3_xxs", "iq3_s", "iq4_xs", "iq4_nl"), -12),
)
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 700, 430, 62, 48, 16, 50
BITS, RATIOS = (2.4, 6.8), (0.37, 5.3)


def read_table(text):
    """{(whose, type): (bits, [KL of each model, None: not measured])}"""
    rows = {}
    for line in text.splitlines():
        found = re.match(r"\| (?:\*\*(\w+)\*\*|ggml (\w+)) \| ([\d.]+) \|(.*)\|$", line)
        if found and found[4].count("|") > 2:
            cells = [c.split()[0] for c in found[4].split("|")]
            values = [None if c == "–" else float(c) for c in cells]
            rows["ours" if found[1] else "ggml", found[1] or found[2]] = (float(found[3]), values)
    return rows


def best_types(rows, model):
    """Bits and logarithms of KL of the ggml types that no smaller or equal one beats."""
    edge = []
    for bits, values in sorted(r for (whose, _), r in rows.items() if whose == "ggml"):
        kl = values[model]
        if kl is None or (edge and math.log(kl) >= edge[-1][1]):
            continue
        if edge and edge[-1][0] == bits:
            edge.pop()
        edge.append((bits, math.log(kl)))
    return edge


def ratio(kl, bits, edge):
    """KL over that of the best type of so many bits; None: not measured, or smaller or larger than all."""
    for (a, at_a), (b, at_b) in zip(edge, edge[1:]):
        if kl is not None and a <= bits <= b:
            return kl / math.exp(at_a + (at_b - at_a) * (bits - a) / (b - a))
    return None


def plot(rows):
    w, h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    models = len(next(iter(rows.values()))[1])
    edges = [best_types(rows, m) for m in range(models)]
    px = lambda bits: LEFT + (bits - BITS[0]) / (BITS[1] - BITS[0]) * w
    py = lambda r: TOP + math.log(RATIOS[1] / r) / math.log(RATIOS[1] / RATIOS[0]) * h
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>']
    for r in (0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5):
        svg.append(f'<path d="M{LEFT} {py(r):.1f}h{w}" stroke="{"#555" if r == 1 else "#e2e2e2"}"/>'
                   f'<text x="{LEFT - 8}" y="{py(r) + 4.5:.1f}" text-anchor="end">{r:g}</text>')
    for bits in (2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5):
        svg.append(f'<path d="M{px(bits):.1f} {TOP}v{h}" stroke="#f0f0f0"/>'
                   f'<text x="{px(bits):.1f}" y="{TOP + h + 18}" text-anchor="middle">{bits:g}</text>')
    svg.append(f'<text x="{LEFT + w / 2}" y="{HEIGHT - 10}" text-anchor="middle">stored bits a weight</text>'
               f'<text transform="translate(16 {TOP + h / 2}) rotate(-90)" text-anchor="middle">'
               'KL divergence ÷ that of the best ggml type</text>'
               f'<text x="{px(6.36):.1f}" y="{py(1) - 6:.1f}" text-anchor="end" fill="#555">best ggml type of this '
               'size</text>')
    for i, (label, colour, whose, kinds, apart) in enumerate(FAMILIES):
        line, names = [], []
        for kind in kinds:
            bits, values = rows[whose, kind]
            found = [r for r in (ratio(kl, bits, edge) for kl, edge in zip(values, edges)) if r]
            if not found:
                continue
            mean = math.exp(sum(map(math.log, found)) / len(found))
            line.append(f"{px(bits):.1f} {py(mean):.1f}")
            x, y = px(bits), py(mean)
            svg += [f'<circle cx="{x:.1f}" cy="{py(r):.1f}" r="2.5" fill="{colour}" opacity="0.35"/>' for r in found]
            svg.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"><title>{kind}, {bits:g} bits: '
                       f'{mean:.2f}</title></circle>')
            names.append(f'<text x="{x:.1f}" y="{y + (22 if kind in BELOW else apart):.1f}" text-anchor="middle" '
                         f'fill="{colour}" stroke="white" stroke-width="3" paint-order="stroke">{kind}</text>')
        svg.append(f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        svg += names
        x = LEFT + i * w / len(FAMILIES)
        svg.append(f'<path d="M{x:.0f} 24h22" stroke="{colour}" stroke-width="2"/>'
                   f'<circle cx="{x + 11:.0f}" cy="24" r="4.5" fill="{colour}"/>'
                   f'<text x="{x + 28:.0f}" y="28.5">{label}</text>')
    return "\n".join(svg) + "\n</svg>\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("table", help="a text with the table, such as src/tensor/README.md")
    p.add_argument("-o", "--output", required=True, help="the plot, as SVG")
    a = p.parse_args()
    rows = read_table(open(a.table, encoding="utf-8").read())
    if not rows:
        raise SystemExit(f"{a.table}: no table of tools/measure_quant.py")
    with open(a.output, "w", encoding="utf-8") as f:
        f.write(plot(rows))


main()
