"""The C sources keep the project's rules, and the checker sees each breach."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_rules() -> ModuleType:
    """The checker beside this file; the folder is no package."""
    spec = importlib.util.spec_from_file_location("c_rules", Path(__file__).with_name("c_rules.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["c_rules"] = module
    spec.loader.exec_module(module)
    return module


rules = load_rules()


def test_the_sources_keep_the_rules() -> None:
    findings = rules.check_tree(ROOT / "csrc")
    assert not findings, "\n" + "\n".join(map(str, findings))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("base/a.c", '#include "wire/packet.h"\n', "room base includes room wire"),
        ("stack/a.c", '#include "capture/tap.h"\n', "room stack includes room capture"),
        ("wire/a.c", '#include "packet.h"\n', "not written from csrc/"),
        ("attic/a.c", "int x;\n", "is in no known room"),
        ("wire/a.c", "int x;\n" * 801, "has 801 lines"),
        ("wire/a.c", "int f(void) {\n" + "  g();\n" * 69 + "}\n", "function f has 71 lines"),
        (
            "wire/a.c",
            "static int\nlong_name(int a,\n          int b) {\n" + "  g();\n" * 70 + "}\n",
            "function long_name has 74 lines",
        ),
        ("wire/a.c", "void *f(void) { return malloc(4); }\n", "calls malloc"),
        ("base/a.c", "void f(void *p) { free(p); }\n", "calls free"),
        ("wire/a.c", "int f(nm_span s) { return *(const uint32_t *)s.ptr; }\n", "wider type"),
        ("wire/a.c", "int f(void) { return ((struct head *)raw)->x; }\n", "wider type"),
        ("wire/a.c", "int x; /* " + "TO" + "DO: more */\n", "leaves a"),
    ],
)
def test_a_breach_is_found(file: str, text: str, said: str) -> None:
    findings = rules.check_text(file, text)
    assert [finding for finding in findings if said in finding.text]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("wire/a.c", '#include "base/cursor.h"\n#include "wire/b.h"\n#include <string.h>\n'),
        ("wire/a.c", "int f(void) {\n" + "  g();\n" * 68 + "}\n"),
        ("wire/a.c", "int f(void) {\n  g();\n}\n\n" * 40),
        ("wire/a.c", '/* malloc(4) is not called here */\nconst char *s = "free(x)";\n'),
        ("base/mem.c", "void *f(void) { return malloc(4); }\n"),
        ("wire/a.c", "static const int table[] = {\n" + "  1,\n" * 100 + "};\n"),
        ("wire/a.c", "int f(void *user) { return ((nm_state *)user)->x; }\n"),
        ("wire/a.c", "uint8_t f(nm_span s) { return *(const uint8_t *)s.ptr; }\n"),
        ("wire/a.c", "void f(nm_mem *mem) { mem->release(mem->user, 0); nm_release(mem, 0); }\n"),
    ],
)
def test_good_code_passes(file: str, text: str) -> None:
    assert rules.check_text(file, text) == []


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"wire/a.h": '#include "wire/b.h"', "wire/b.h": '#include "wire/a.h"'}, {"a.h", "b.h"}),
        (
            {
                "wire/a.h": '#include "wire/b.h"',
                "wire/a.c": "",
                "wire/b.h": "",
                "wire/b.c": '#include "wire/b.h"\n#include "wire/c.h"',
                "wire/c.h": "",
                "wire/c.c": '#include "wire/a.h"',
                "wire/d.h": '#include "wire/a.h"',
                "wire/d.c": "",
            },
            {"a.h", "b.h", "c.h"},
        ),
    ],
    ids=["headers", "files with their headers"],
)
def test_a_circle_is_found(texts: dict[str, str], said: set[str]) -> None:
    findings = rules.check_circles(texts)
    assert {finding.file.removeprefix("wire/") for finding in findings} == said


def test_an_inner_header_may_include_the_public_one_of_a_file_that_uses_it() -> None:
    texts = {
        "wire/a.h": "",
        "wire/a.c": '#include "wire/a.h"\n#include "wire/inner.h"',
        "wire/inner.h": '#include "wire/a.h"',
        "wire/b.c": '#include "wire/inner.h"',
    }
    assert rules.check_circles(texts) == []
