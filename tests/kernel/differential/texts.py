"""What is written to resctrl's files: text in its right shape, and in many wrong ones."""

import random

from tests.kernel.differential.facts import Facts, Resource

ODD_NUMBERS = (
    "", " ", "-1", "+1", "+", "-", "0x", "0x1", "1x", "01", "08", "1 ", " 1", "\t1", "1\r", "4294967295", "4294967296",
    "18446744073709551615", "18446744073709551616", "99999999999999999999999", "1_0", "1.5", "++1", "+-1", "0X1F",
    "nan",
)  # fmt: skip

_SEPARATORS = (";", "=", ":", ",", "\n", " ", "\t", "\0", "\r", "\xe9", "\xa0", "#", ";;", "==", "+", "-", "0x")


def schemata(chance: random.Random, facts: Facts) -> str:
    """One line or several, mostly right."""
    lines = [_line(chance, facts) for _ in range(chance.choice((1, 1, 1, 1, 2, 2, 3)))]
    text = "\n".join(lines) + "\n"
    if chance.random() < 0.12:
        text = _spoilt(chance, text)
    return text[:-1] if chance.random() < 0.04 else text


def mode(chance: random.Random) -> str:
    """A mode's name, mostly one of the two that work everywhere."""
    common = ("shareable\n", "exclusive\n")
    rare = (
        "pseudo-locksetup\n", "pseudo-locked\n", "", "\n", "exclusive", "exclusive\n\n", " exclusive\n", "Exclusive\n",
        "exclusive \n", "exclusive\0x\n", "nonsense\n", "share\n", "shareable\nexclusive\n",
    )  # fmt: skip
    return chance.choice(common if chance.random() < 0.7 else rare)


def tasks(chance: random.Random, roles: list[str]) -> str:
    """Ids of the processes with these roles, written ``{role}``."""
    count = chance.choice((1, 1, 1, 1, 2, 3))
    text = ",".join(_task(chance, roles) for _ in range(count)) + chance.choice(("", "\n"))
    if chance.random() < 0.2:
        one, other = _task(chance, roles), _task(chance, roles)
        text = chance.choice(
            (f"{one} {other}", f"{one},,{other}", f"{one},", f"{one},\n", f",{one}", f"{one}\n{other}\n",
            f"{one};{other}",
             ",", "", "\n", " \n", "\0", f"{one}\0{other}", f" {one} , {other} \n", f"\n{one}", f"{one},x,{other}\n",
             f"{one}\n\n", f"-{one}", f"+{one}", "-1,0", f"{one},-1,{other}")
        )  # fmt: skip
    return text


def cpus(chance: random.Random, facts: Facts) -> str:
    """A mask of CPUs."""
    text = f"{chance.randrange(1 << facts.cpus):x}"
    if chance.random() < 0.35:
        text = chance.choice(
            ("", "0", "00000000", f"0{text}", f"0x{text}", f" {text}", f"{text} ", "10", "1f", "ffffffff", "0,f", "f,0",
             "1,0", ",", f"{text},", f",{text}", "g", "-1", "000000001", "00000000,0000000f", f"{text}\0f", "F", "f f",
             "0 1", "\t1", "f\nzzz", "fffffffff", "0,0,f", "1 ,2", "\0", "0000000000", "+1")
        )  # fmt: skip
    return text + chance.choice(("\n", ""))


def cpus_list(chance: random.Random, facts: Facts) -> str:
    """A list of CPUs."""
    chosen = sorted(chance.sample(range(facts.cpus), chance.randrange(facts.cpus + 1)))
    text = ",".join(map(str, chosen))
    if chance.random() < 0.45:
        text = chance.choice(
            ("0-3", "0-1", "2-3", "1-2", "1-", "-1", "3-0", "0-4", "4", "31", "32", "0-31", "64", "8191", "99999",
                "0,,1",
             ",", "0,", ",0", " 0", "0 ", "0 1", "0- 1", "a", "0x1", "all", "ALL", "N", "0-N", "n", "none", "0-3:1/2",
             "0-3:2/2", "0-3:3/2", "0-3:0/1", "0-3:1/0", "0-3:1/3", "0:1/2", "all:1/2", "N-0", "1-1", "+1", "01",
             "0-3:1",
             "0-3:", "0-3/2", "4294967296", "18446744073709551616", "1\x002", "2-N:1/2", "0-3\n4", "\0", "0;1", "0-1-2",
             "00000000000000000001", "all,0", "allx", "0-3:1/2,3", "N,0", "1-3:N/N", "0:1/1")
        )  # fmt: skip
    return text + chance.choice(("\n", ""))


def threshold(chance: random.Random) -> str:
    """For ``max_threshold_occupancy``."""
    sizes = ("0", "63", "64", "65535", "65536", "100000", "131072", "524287", "524288", "524289", "16777215",
        "16777216",
             "16777217", "0x10000", "0200000")  # fmt: skip
    return chance.choice(sizes if chance.random() < 0.7 else ODD_NUMBERS) + chance.choice(
        ("\n", "", "\n", "\n\n", "\0")
    )


def event_configuration(chance: random.Random) -> str:
    """For ``mbm_*_bytes_config``."""
    mask = chance.choice(
        ("0x7f", "0x15", "0", "1", "7f", "80", "0x80", "ff", "x", "", " 3", "3 ", "-1", "0x", "+7", "7F")
    )
    pieces = [f"{chance.choice(('0', '1', '0', '1', '2', '', 'x', ' 0', '0x1', '+1', '01'))}={mask}"]
    if chance.random() < 0.5:
        pieces.append(f"{chance.choice('0123')}=0x{chance.randrange(0x80):x}")
    text = ";".join(pieces) + "\n"
    return _spoilt(chance, text) if chance.random() < 0.15 else text


def assignments(chance: random.Random) -> str:
    """For ``mbm_L3_assignments``."""
    event = chance.choice(
        ("mbm_total_bytes", "mbm_local_bytes", "mbm_total_bytes", "mbm_local_bytes", "llc_occupancy", "x", "")
    )
    domains = ("0", "1", "*", "0", "1", "2", "", "x", "01")
    states = ("e", "_", "e", "_", "x", "", "e_", "ee")
    values = (f"{chance.choice(domains)}={chance.choice(states)}" for _ in range(chance.choice((1, 1, 2))))
    text = f"{event}:{';'.join(values)}\n"
    if chance.random() < 0.2:
        text += f"mbm_local_bytes:*={chance.choice('e_x')}\n"
    return _spoilt(chance, text) if chance.random() < 0.12 else text


def event_filter(chance: random.Random) -> str:
    """For ``event_configs/*/event_filter``."""
    transfers = ("local_reads", "remote_reads", "local_non_temporal_writes", "remote_non_temporal_writes",
                 "local_reads_slow_memory", "remote_reads_slow_memory", "dirty_victim_writes_all")  # fmt: skip
    text = ",".join(chance.sample(transfers, chance.randrange(1, 5))) + "\n"
    if chance.random() < 0.3:
        text = chance.choice(("\n", "", "nonsense\n", "local_reads,\n", ",local_reads\n", "local_reads,x\n",
            " local_reads\n",
                              "local_reads , remote_reads\n", "local_reads", "local_reads,local_reads\n"))  # fmt: skip
    return text


def word(chance: random.Random, words: tuple[str, ...]) -> str:
    """One of a few words that a file takes, mostly."""
    text = chance.choice(words) + "\n"
    return _spoilt(chance, text) if chance.random() < 0.25 else text


def _line(chance: random.Random, facts: Facts) -> str:
    if not facts.resources or chance.random() < 0.05:
        return chance.choice(
            ("L4:0=1", "", ":", "L3", "L3:", "MB:", " ", "L3 0=f", "l3:0=f", "MB:0", "L3CODE:0=f", "L2:0=1",
                "SMBA:0=10",
             "L3 :0=f", "MB:=", "L3:=f", "L3:;", "MB:;0=10", "L3::0=f", "L3:\t0=f", ":0=f", "MB:0=50;", "MB:0=50;;1=50")
        )  # fmt: skip
    resource = chance.choice(facts.resources)
    domains = chance.sample(resource.domains, chance.randrange(1, len(resource.domains) + 1))
    values = [f"{domain}={_value(chance, resource)}" for domain in domains]
    if chance.random() < 0.06:
        odd = chance.choice(("9", "-1", "x", "", " 0", "0 ", "0x0", "+0", "00", "4294967296", "18446744073709551616"))
        values.insert(chance.randrange(len(values) + 1), f"{odd}={_value(chance, resource)}")
    if chance.random() < 0.05:
        values.append(values[0])
    name = chance.choice((f" {resource.name}", f"{resource.name} ", f"{resource.name:>10}", resource.name.lower()))
    return f"{resource.name if chance.random() < 0.9 else name}:" + ";".join(values)


def _value(chance: random.Random, resource: Resource) -> str:
    if chance.random() < 0.08:
        return chance.choice(ODD_NUMBERS)
    return _mask(chance, resource.ways) if resource.ways else _bandwidth(chance)


def _mask(chance: random.Random, ways: int) -> str:
    kind = chance.random()
    if kind < 0.8:
        first = chance.randrange(ways)
        mask = ((1 << chance.randrange(1, ways - first + 1)) - 1) << first
    elif kind < 0.9:
        mask = chance.randrange(1 << ways)
    else:
        mask = chance.choice((0, 1 << ways, (1 << ways) - 1, (1 << ways + 1) - 1, 1, 1 << ways - 1, 5))
    return chance.choice(
        (f"{mask:x}", f"{mask:x}", f"{mask:x}", f"0x{mask:x}", f"{mask:X}", f"{mask:08x}", f" {mask:x} ")
    )


def _bandwidth(chance: random.Random) -> str:
    percent = (10, 20, 50, 100, 100, 15, 11, 99, 91, 9, 0, 101, 1, 64, 2047, 2048, 2049, 4096, 5000)
    number = chance.choice(percent)
    return chance.choice((f"{number}", f"{number}", f"{number}", f" {number}", f"{number:05}", f"+{number}"))


def _spoilt(chance: random.Random, text: str) -> str:
    """The text with one character more, less, or other."""
    position = chance.randrange(len(text))
    odd = chance.choice(_SEPARATORS)
    cut = chance.choice((text[position:], text[position + 1 :]))
    return text[:position] + chance.choice((odd, odd, "")) + cut


def _task(chance: random.Random, roles: list[str]) -> str:
    role = chance.choice(roles)
    if chance.random() < 0.12:
        return chance.choice(
            ("0", "00", "-1", "1x", "x", " ", "99999999999", "2147483648", "4294967296", "2147483647", "0x")
        )
    return chance.choice(
        (f"{{{role}}}",) * 6 + (f" {{{role}}}", f"{{{role}}} ", f"+{{{role}}}", f"0{{{role}:o}}", f"0x{{{role}:x}}")
    )
