"""Fields that a manager owns in an object, found in its `managedFields`, and other values for them."""

import base64
import json
import re

# Where another value has to be one of a few.
OTHERS = {"Recreate": "RollingUpdate", "TCP": "UDP", "HTTPS": "HTTP", "RuntimeDefault": "Unconfined", "OnRootMismatch": "Always", "FallbackToLogsOnError": "File"}


def owned(found: dict, manager: str) -> list[tuple]:
    """Paths of all fields of an object that `manager` set: tuples of names and, for entries of lists, dicts of their keys."""
    paths = []

    def walk(fields: dict, path: tuple):
        if not fields:
            paths.append(path)
        for step, inner in fields.items():
            if step == ".":
                if isinstance(path[-1], dict):
                    paths.append(path)
            elif step.startswith("f:"):
                # What an entry is known by cannot change without it being another entry.
                if not (isinstance(path[-1] if path else None, dict) and step[2:] in path[-1]):
                    walk(inner, (*path, step[2:]))
            else:
                walk(inner, (*path, json.loads(step[2:])))

    for entry in found["metadata"]["managedFields"]:
        if entry["manager"] == manager and entry.get("subresource") != "status":
            walk(entry["fieldsV1"], ())
    return paths


def named(path: tuple) -> str:
    """As the operator names a field to people."""
    text = ""
    for step in path:
        if isinstance(step, dict):
            text += f"[{step[min(step)]}]"
        elif "." in step or "/" in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def position(found: dict, path: tuple) -> list | None:
    """Keys and indices that lead to the field; None when it is not there."""
    steps, value = [], found
    for step in path:
        if isinstance(step, dict):
            at = next((index for index, entry in enumerate(value or []) if step.items() <= entry.items()), None)
        else:
            at = step if isinstance(value, dict) and step in value else None
        if at is None:
            return None
        steps.append(at)
        value = value[at]
    return steps


def value_at(found: dict, path: tuple):
    steps = position(found, path)
    if steps is None:
        return None
    for step in steps:
        found = found[step]
    return found


def pointer(steps: list) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def changes(found: dict, path: tuple) -> list[list[dict]]:
    """JSON patches that give the field another value or none, the likeliest to be accepted first."""
    steps, value = position(found, path), value_at(found, path)
    if path[-2:-1] == ("ownerReferences",):
        return [[{"op": "replace", "path": pointer([*steps, "controller"]), "value": False}]]
    if isinstance(path[-1], dict):
        numbers = [(key, number) for key, number in path[-1].items() if isinstance(number, int)]
        return [[{"op": "remove", "path": pointer(steps)}]] + [[{"op": "replace", "path": pointer([*steps, key]), "value": number + 1}] for key, number in numbers]
    if path[-3:-2] == ("volumeMounts",) and path[-1] == "name":
        # Of another volume, which has to be there.
        pod, other = steps[:-5], f"other-{steps[-2]}-{steps[-4]}-{steps[-5]}".lower()
        return [[{"op": "add", "path": pointer([*pod, "volumes", "-"]), "value": {"name": other, "emptyDir": {}}}, {"op": "replace", "path": pointer(steps), "value": other}]]
    if found["kind"] == "Secret" and path[0] == "data":
        others = [base64.b64encode(b"x").decode()]
    elif isinstance(value, bool):
        others = [not value]
    elif isinstance(value, int):
        others = [value + 1, value - 1]
    elif isinstance(value, str):
        quantity = re.fullmatch(r"(\d+)([KMGT]i)", value)
        others = [OTHERS[value]] if value in OTHERS else [f"{int(quantity[1]) + 1}{quantity[2]}"] if quantity else [f"{value}-x", "x", f"{value}0"]
    elif isinstance(value, list):
        others = [[*value, f"{value[-1]}-x"] if isinstance(value[-1], str) else value[:-1], value[:-1]]
    else:
        key = min(value)
        others = [value | {key: "x"}, {name: entry for name, entry in value.items() if name != key}, {key: {"x": "x"}}]
    # Where none of these is allowed, the field may be left out.
    return [[{"op": "replace", "path": pointer(steps), "value": other}] for other in others] + [[{"op": "remove", "path": pointer(steps)}]]
