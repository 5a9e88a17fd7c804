import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reconcile.globs import name_pattern, path_pattern, prefixes


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("/a/b", ["/a/b"], ["/a", "/a/b/c", "/a/bb"]),
        ("/a/b/", ["/a/b"], ["/a/b/"]),
        ("/", ["/"], ["/a"]),
        ("/a/*", ["/a/b", "/a/b.service"], ["/a", "/a/b/c"]),
        ("/a/b?", ["/a/bc"], ["/a/b", "/a/b/"]),
        ("/a/**", ["/a/b", "/a/b/c"], ["/a", "/ab"]),
        ("/a/**/z", ["/a/z", "/a/b/z", "/a/b/c/z"], ["/a", "/az", "/a/bz"]),
        ("/**", ["/a", "/a/b"], []),
        ("/a*/b", ["/a/b", "/abc/b"], ["/a/c/b"]),
        ("/a/[bc]", ["/a/b", "/a/c"], ["/a/d", "/a/[bc]"]),
        ("/a/[!bc]", ["/a/d"], ["/a/b", "/a/", "/a//"]),
        ("/a/[b-d]x", ["/a/cx"], ["/a/ex"]),
        ("/a/[]]", ["/a/]"], ["/a/["]),
        ("/a/[b", ["/a/[b"], ["/a/b"]),
        ("/a/[[&~|^]", ["/a/[", "/a/&", "/a/~", "/a/|", "/a/^"], ["/a/b"]),
        ("/a/[z-a]", [], ["/a/z", "/a/-", "/a/a"]),
        ("/a/[!z-a]", ["/a/z", "/a/b"], ["/a//"]),
        ("/a/[+--]", ["/a/+", "/a/,", "/a/-"], ["/a/."]),
        ("/a[.-0]b", ["/a.b", "/a0b"], ["/a/b"]),
        ("/a/[a-]", ["/a/a", "/a/-"], ["/a/b"]),
        ("/a.b", ["/a.b"], ["/axb"]),
        ("/a\\b", ["/a\\b"], ["/ab"]),
        ("/a/*", ["/a/new\nline"], []),
    ],
)
def test_what_a_path_glob_means(glob, matches, others):
    pattern = path_pattern(glob)
    assert [path for path in matches if not pattern.fullmatch(path)] == []
    assert [path for path in others if pattern.fullmatch(path)] == []


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("mysqld.service", ["mysqld.service"], ["mysqld_service", "xmysqld.service"]),
        ("postgresql@*.service", ["postgresql@14-main.service"], ["postgresql.service"]),
        ("*.slice", ["a.slice", "a-b.slice"], ["a.service"]),
        ("kworker/*", ["kworker/0:1"], ["kworker"]),
        ("kworker[!x]0", ["kworker/0"], ["kworkerx0"]),
        ("?", ["a"], ["", "ab"]),
    ],
)
def test_what_a_glob_over_names_means(glob, matches, others):
    pattern = name_pattern(glob)
    assert [name for name in matches if not pattern.fullmatch(name)] == []
    assert [name for name in others if pattern.fullmatch(name)] == []


@given(st.text() | st.text("[]!^-az/*?&|~\\"))
def test_any_text_is_a_glob(text):
    path_pattern(text)
    name_pattern(text)


@given(
    st.lists(st.text(st.characters(blacklist_characters="/*?[", blacklist_categories=("Cs",)), min_size=1), min_size=1)
)
def test_a_path_without_signs_matches_itself_alone(components):
    path = "/" + "/".join(components)
    assert path_pattern(path).fullmatch(path)
    assert not path_pattern(path).fullmatch(path + "x")


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", ["/"]), ("/a", ["/", "/a"]), ("/a/b c/d", ["/", "/a", "/a/b c", "/a/b c/d"])],
)
def test_a_cgroup_and_all_above_it(path, expected):
    assert prefixes(path) == expected
