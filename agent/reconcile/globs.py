"""Globs over paths: ``*`` and ``?`` stay within a component, ``**`` crosses components."""

import re
from collections.abc import Iterator
from functools import lru_cache


@lru_cache(maxsize=1024)
def path_pattern(glob: str) -> re.Pattern[str]:
    """A pattern whose ``fullmatch`` is the glob's meaning for absolute paths; a trailing slash means nothing.

    ``/a/**/b`` matches ``/a/b`` and ``/a/x/y/b``; ``/a/**`` matches what is below ``/a``, not ``/a`` itself.
    """
    trimmed = glob.rstrip("/") or "/"
    return re.compile("".join(_translate(trimmed, component="[^/]")), re.DOTALL)


@lru_cache(maxsize=1024)
def name_pattern(glob: str) -> re.Pattern[str]:
    """The same for a single name, in which ``*`` matches anything."""
    return re.compile("".join(_translate(glob, component=".")), re.DOTALL)


def prefixes(path: str) -> list[str]:
    """``/a/b`` → ``["/", "/a", "/a/b"]``: the cgroup itself last."""
    if path == "/":
        return ["/"]
    parts = path.split("/")
    return ["/", *("/".join(parts[: n + 1]) for n in range(1, len(parts)))]


def _translate(glob: str, component: str) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(glob):
        if component == "[^/]" and glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            at += 3
        elif glob.startswith("**", at):
            out.append(".+")
            at += 2
        elif glob[at] == "*":
            out.append(component + "*")
            at += 1
        elif glob[at] == "?":
            out.append(component)
            at += 1
        elif glob[at] == "[" and (end := _bracket_end(glob, at)) > 0:
            out.append(_bracket(glob[at + 1 : end], within_component=component != "."))
            at = end + 1
        else:
            out.append(re.escape(glob[at]))
            at += 1
    return out


def _bracket_end(glob: str, at: int) -> int:
    """Where the ``]`` of the set that opens at ``at`` is; -1 for a ``[`` that stands for itself."""
    first = at + 2 if glob[at + 1 : at + 2] in ("!", "^") else at + 1
    return glob.find("]", first + 1)


def _bracket(inside: str, *, within_component: bool) -> str:
    """A set of characters; ``[!…]`` is its complement. Neither matches ``/`` where components count."""
    negated = inside[:1] in ("!", "^")
    members = "".join(_members(inside[1:] if negated else inside))
    any_of_them = f"[{members}]" if members else "(?!)"
    one = f"(?!{any_of_them})." if negated else any_of_them
    return f"(?!/){one}" if within_component else one


def _members(body: str) -> Iterator[str]:
    """Characters and ranges, escaped. A range that ends before it starts has nothing in it."""
    at = 0
    while at < len(body):
        first, dash, last = body[at], body[at + 1 : at + 2], body[at + 2 : at + 3]
        if dash == "-" and last:
            if first <= last:
                yield f"{re.escape(first)}-{re.escape(last)}"
            at += 3
        else:
            yield re.escape(first)
            at += 1
