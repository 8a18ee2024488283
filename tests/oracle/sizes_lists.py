"""Random op lists in the sizes form, spelt in every way that JSON allows."""

import dataclasses

MOST = 2**63 - 1
NAMES = ["LayerNorm", "GELU", "", "a,b", 'say "hi"', "back\\slash", "λ→😀", "naïve", "行列積", "tab\t",
         "two\nlines", "\x00", "\x7f", "</script>", "a/b~c", "\U0010ffff", "\ud7ff\ue000", "x" * 300]


@dataclasses.dataclass
class Case:
    sizes: list  # of (input, output)
    dtype_bytes: int
    name: str | None
    options: list
    text: str


def cut(rng, total, parts):
    """`parts` numbers that add up to `total`; some of them 0."""
    ends = sorted(rng.choice([0, total, rng.randint(0, total)]) if rng.random() < 0.1
                  else rng.randint(0, total) for _ in range(parts - 1))
    return [end - start for start, end in zip([0, *ends], [*ends, total])]


def paired(numbers):
    return list(zip(numbers[::2], numbers[1::2]))


def small(rng, count, _dtype_bytes):
    most = rng.choice([0, 1, 3, 10, 100])
    return paired([rng.randint(0, most) for _ in range(2 * count)])


def everyday(rng, count, _dtype_bytes):
    most = rng.choice([10**4, 10**6, 10**9, 2**40])
    return paired([0 if rng.random() < 0.1 else rng.randint(1, most) for _ in range(2 * count)])


def largest(rng, count, dtype_bytes):
    """The bytes are 2^63 - 1, or as near to it as whole elements come, or a little below."""
    total = MOST // dtype_bytes - rng.choice([0, 0, 1, rng.randint(0, 1000)])
    return paired(cut(rng, max(total, 0), 2 * count))


def too_large(rng, count, dtype_bytes):
    total = MOST // dtype_bytes + rng.choice([1, 1, 2, rng.randint(1, MOST)])
    numbers = cut(rng, total, 2 * count)
    return paired([min(number, MOST) for number in numbers])


def half_way(rng, _count, _dtype_bytes):
    """Savings of an odd number of eighths of a percent (0.125 %), or near to that."""
    scale = rng.choice([1, 1, 3, 7, 10**6, rng.randint(1, 10**9)])
    total = 800 * scale
    saved = scale * rng.randrange(1, 800, 2) + rng.choice([0, 0, 0, 1, -1])
    inner = rng.randint(0, saved)
    outer = rng.randint(0, total - saved)
    return [(outer, inner), (saved - inner, total - saved - outer)]


def bare_inside(rng, count, _dtype_bytes):
    """Nothing enters or leaves the chain."""
    numbers = [rng.randint(0, 10**6) for _ in range(2 * count)]
    numbers[0] = numbers[-1] = 0
    return paired(numbers)


def steep(rng, count, dtype_bytes):
    """Speedups so large that every bit of the quotient shows."""
    ends = rng.choice([1, 3, 7, rng.randint(1, 100), rng.randint(1, 10**5)])
    total = rng.randint(MOST // dtype_bytes // 1000, MOST // dtype_bytes) - ends
    return paired([ends, *cut(rng, total, 2 * count), 0])


def spelt_string(rng, text):
    if rng.random() < 0.5:
        return '"' + "".join(spelt_character(rng, c, 0.0) for c in text) + '"'
    return '"' + "".join(spelt_character(rng, c, 0.4) for c in text) + '"'


def spelt_character(rng, character, escaping):
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "/": "\\/"}
    if character in short and rng.random() < 0.5:
        return short[character]
    if character in '"\\' or character < " " or rng.random() < escaping:
        units = character.encode("utf-16-be")
        digits = [units[i:i + 2].hex() for i in range(0, len(units), 2)]
        return "".join("\\u" + (d.upper() if rng.random() < 0.5 else d) for d in digits)
    return character


def spelt_object(rng, members, space):
    members = list(members)
    rng.shuffle(members)
    spelt = (space() + (spelt_string(rng, key) if rng.random() < 0.1 else f'"{key}"') + space() +
             ":" + space() + value + space() for key, value in members)
    return "{" + ",".join(spelt) + "}"


def spelt_count(rng, number):
    return "-0" if number == 0 and rng.random() < 0.05 else str(number)


def spelt_operation(rng, operation, space):
    members = [("input_size", spelt_count(rng, operation[0])),
               ("output_size", spelt_count(rng, operation[1]))]
    if rng.random() < 0.6:
        members.append(("name", spelt_string(rng, rng.choice(NAMES))))
    return spelt_object(rng, members, space)


def random_list(rng):
    in_document = rng.random() < 0.4
    by_option = rng.random() < 0.3
    dtype = rng.choice([1, 2, 3, 4, 8, 16, rng.randint(1, 1000)])
    dtype_bytes = dtype if in_document or by_option else 2
    kind = rng.choice([small, everyday, everyday, largest, too_large, half_way, bare_inside,
                       steep])
    count = rng.choice([1, 1, 1, 2, 2, 3, 3, *(rng.randint(4, 40) for _ in range(6)),
                        rng.randint(40, 1500)])
    sizes = [] if rng.random() < 0.05 else kind(rng, count, dtype_bytes)

    roomy = rng.random() < 0.5
    def space():
        return "".join(rng.choices(" \n\t\r", k=rng.randint(0, 3))) if roomy else ""

    operations = [spelt_operation(rng, operation, space) for operation in sizes]
    text = "[" + space() + ("," + space()).join(operations) + space() + "]"
    name = None
    if in_document or rng.random() < 0.5:
        members = [("operations", text)]
        if in_document:
            # What the option overrides may be anything.
            written = rng.randint(1, 1000) if by_option else dtype
            members.append(("dtype_bytes", str(written)))
        if rng.random() < 0.5:
            name = rng.choice([n for n in NAMES if n])
            members.append(("name", spelt_string(rng, name)))
        text = spelt_object(rng, members, space)
    mark = "\ufeff" if rng.random() < 0.05 else ""
    options = ["--dtype-bytes", str(dtype)] if by_option else []
    return Case(sizes, dtype_bytes, name, options, mark + space() + text + space())
