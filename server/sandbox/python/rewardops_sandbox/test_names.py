"""
Finds the functions of a program that its tests call. Only the tests are read, so that a program cannot
choose how it is judged.
"""

import ast
import builtins


class NeedsObjects(BaseException):
    """Raised if the tests use objects of the program other than its functions; the message names the object."""


def functions_called(texts, defined, entry_point):
    """
    The names of the program's functions that the tests `texts` call. If `entry_point` is set, only that name.
    `defined` holds the names that the tests have without the program. Raises NeedsObjects.
    """
    trees = [ast.parse(text) for text in texts]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    bound = set(defined)
    used = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
    unknown = used - bound - set(dir(builtins)) - {"__name__"}
    of_program = {entry_point} if entry_point else unknown
    for name in sorted(unknown - of_program):
        raise NeedsObjects(f"the tests use {name} of the program")
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_name(node.value, of_program):
            raise NeedsObjects(f"the tests use {node.value.id}.{node.attr} of the program")
        if isinstance(node, (ast.Compare, ast.BinOp)):
            for side in ast.iter_child_nodes(node):
                if _is_name(side, of_program):
                    raise NeedsObjects(f"the tests use the value {side.id} of the program")
    for name in sorted(of_program):
        # A capitalized name is usually a class, so the tests would use its instances, which are objects of the program.
        if entry_point is None and name[:1].isupper():
            raise NeedsObjects(f"the tests use the class {name} of the program")
    return of_program


def _is_name(node, names):
    return isinstance(node, ast.Name) and node.id in names
