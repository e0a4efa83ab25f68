"""How many faults planted in the interpreter of worlds its own quick tests find.

    python benchmarks/interpreter_faults.py                    # sixty, drawn by seed
    python benchmarks/interpreter_faults.py --faults 200 --seed 3
    python benchmarks/interpreter_faults.py --all              # each one that is known

A fault is one node of the file changed: a comparison turned or off by one, `and` for `or`, a
condition, `raise`, `return` or other statement dropped, a sign, a constant, two arguments swapped.
Each is run in a child of a process that has loaded pytest already, in memory: no file changes.
What still runs after SECONDS of CPU time is found too, as a test's time limit would find it.

Faults that change nothing that anybody could tell count as survivors here: read the list of them.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import hypothesis
import hypothesis.stateful
import pytest
from measure import show

ROOT = Path(__file__).parents[1]
FILE = ROOT / "pipeline/checks/world/interpreter.py"
NAME = "toolloom.pipeline.checks.world.interpreter"
TESTS = [f"tests/pipeline/checks/world/test_{name}.py" for name in ("interpreter", "machine")]
TESTS += [f"tests/pipeline/checks/world/test_{name}.py" for name in ("outcome", "dialogues")]
SECONDS = 20  # of CPU time, for one fault

TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
BESIDE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
}
Edit = Callable[[Any], None]


class Fault(NamedTuple):
    """A kind, the place of a node in `ast.walk`, and what is done to it."""

    kind: str
    place: int
    edit: Edit


def faults(tree: ast.Module) -> Iterator[Fault]:
    """Every fault that is known, of what runs: annotations do not."""
    idle = {
        inner
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    for place, node in enumerate(ast.walk(tree)):
        if node not in idle:
            yield from (Fault(kind, place, edit) for kind, edit in edits(node))


def edits(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    if isinstance(node, ast.Compare):
        for kind, others in (("comparison turned", TURNED), ("comparison off by one", BESIDE)):
            for number, sign in enumerate(node.ops):
                if type(sign) in others:
                    yield kind, put("ops", number, others[type(sign)]())
    elif isinstance(node, ast.BoolOp):
        other, idle = (ast.Or, False) if isinstance(node.op, ast.And) else (ast.And, True)
        yield "and for or", lambda n: setattr(n, "op", other())
        for number in range(len(node.values)):
            yield "condition dropped", put("values", number, ast.Constant(not idle))
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        sign_of = SIGNS[type(node.op)]
        if not isinstance(node.op, ast.BitOr) or isinstance(node.left, (ast.Set, ast.Dict)):
            yield "sign", lambda n: setattr(n, "op", sign_of())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", lambda n: setattr(n, "op", ast.UAdd())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield (
            "comparison turned",
            lambda n: setattr(n, "operand", ast.UnaryOp(ast.Not(), n.operand)),
        )
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "condition dropped", lambda n: setattr(n, "test", ast.Constant(True))
        yield "condition dropped", lambda n: setattr(n, "test", ast.Constant(False))
    elif isinstance(node, ast.comprehension):
        for number in range(len(node.ifs)):
            yield "condition dropped", put("ifs", number, ast.Constant(True))
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield "constant", lambda n: setattr(n, "value", value)
    elif isinstance(node, ast.Return) and not isinstance(node.value, _BARE):
        yield "return dropped", lambda n: setattr(n, "value", ast.Constant(None))
    elif isinstance(node, ast.Call) and len(node.args) == 2 and _name(node.func) != "isinstance":
        yield "arguments swapped", lambda n: n.args.reverse()
    if not isinstance(node, ast.Module):
        for part in ("body", "orelse", "finalbody"):
            block = getattr(node, part, None)
            for number, step in enumerate(block if isinstance(block, list) else ()):
                if isinstance(step, ast.Raise):
                    yield "raise dropped", put(part, number, ast.Pass())
                elif isinstance(step, _DROPPED) and not _is_text(step):
                    yield "statement dropped", put(part, number, ast.Pass())


_DROPPED = (ast.Expr, ast.AugAssign, ast.Delete, ast.Continue)
_BARE = (ast.Constant, ast.Name, ast.Lambda, type(None))  # what returns a closure falls at once


def put(part: str, number: int, value: ast.AST) -> Edit:
    return lambda node: getattr(node, part).__setitem__(number, value)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_text(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)


def planted(tree: ast.Module, fault: Fault) -> tuple[CodeType, str]:
    """The file with a fault, compiled; and what changed, in a line."""
    copied = copy.deepcopy(tree)
    node: Any = next(n for place, n in enumerate(ast.walk(copied)) if place == fault.place)
    before = ast.unparse(node).splitlines()
    fault.edit(node)
    after = ast.unparse(node).splitlines()
    lines = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    old, new = lines[0] if lines else (before[-1], "")
    line = getattr(node, "lineno", 0)
    code: CodeType = compile(ast.fix_missing_locations(copied), str(FILE), "exec")
    return code, f"{line}: {old.strip()} → {new.strip()}"


class Planted(MetaPathFinder, SourceFileLoader):
    """Gives the file with a fault where its module is imported."""

    def __init__(self, code: CodeType) -> None:
        super().__init__(NAME, str(FILE))
        self.code = code

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_file_location(name, FILE, loader=self) if name == NAME else None

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class Quick:
    """No example is made smaller: the first is enough."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("fault", hypothesis.settings.default, phases=phases)
        hypothesis.settings.load_profile("fault")


def survives(code: CodeType) -> bool:
    """Whether all tests pass, in a process of its own."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(SECONDS * 6)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, Planted(code))
    wanted = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no"]
    wanted += ["--assert=plain", *TESTS]  # which warns of nothing that is loaded already
    try:
        os._exit(int(pytest.main(wanted, plugins=[Quick()])))
    finally:
        os._exit(9)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="each fault, not a sample")
    options = parser.parse_args()
    os.chdir(ROOT)
    tree = ast.parse(FILE.read_text())
    if not survives(compile(tree, str(FILE), "exec")):
        sys.exit("The tests fail without a fault.")
    chosen = list(faults(tree))
    if not options.all:
        chosen = random.Random(options.seed).sample(chosen, options.faults)
    planted_of, found = Counter[str](), Counter[str]()
    for fault in chosen:
        code, said = planted(tree, fault)
        planted_of[fault.kind] += 1
        if survives(code):
            print(f"survives: {fault.kind}, {said}", flush=True)
        else:
            found[fault.kind] += 1
    rows: list[dict[str, Any]] = [
        {"kind": kind, "planted": count, "found": found[kind], "share": found[kind] / count}
        for kind, count in planted_of.most_common()
    ]
    total, hits = planted_of.total(), found.total()
    rows.append({"kind": "all", "planted": total, "found": hits, "share": hits / total})
    heads = {"kind": "kind", "planted": "planted", "found": "found", "share": "share"}
    show("Faults in the interpreter", rows, heads)


if __name__ == "__main__":
    main()
