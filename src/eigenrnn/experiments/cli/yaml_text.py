"""Loads YAML that is no larger than it looks."""

from typing import Any

import yaml

__all__ = ["load_yaml"]

_MOST_NODES = 10_000
_TOO_DEEP = "is nested too deeply"


def load_yaml(text: str) -> Any:
    """Load a YAML document.

    An alias is counted as often as it is used, since whoever walks through the document meets it
    as often: a few lines of aliases of aliases stand for billions of values.

    Raises:
        YAMLError: If the text is no YAML, has more than 10,000 values, refers to itself or is
            nested too deeply.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {}, ())
        return loader.construct_document(node)
    except RecursionError:
        raise yaml.YAMLError(_TOO_DEEP) from None
    finally:
        loader.dispose()


def _count(node: yaml.Node, known: dict[int, int], above: tuple[int, ...]) -> int:
    """Count the values of a node, those of its children among them.

    Raises:
        YAMLError: If there are too many, or one is its own child.
    """
    if id(node) in above:
        raise yaml.YAMLError(f"refers to itself in line {node.start_mark.line + 1}")
    if id(node) not in known:
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = list(node.value)
        elif isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        known[id(node)] = 1 + sum(_count(child, known, (*above, id(node))) for child in children)
    if known[id(node)] > _MOST_NODES:
        raise yaml.YAMLError(f"expected at most {_MOST_NODES:,} values with all aliases, got more")
    return known[id(node)]
