"""Annotations in code of a model, as a syntax tree: each is passed through `annotation_texts`."""

import ast
from abc import abstractmethod
from typing import Any


class AnnotationChanger(ast.NodeTransformer):
    """Changes the annotations in a tree; `returns` of functions by `change_annotation`."""

    @abstractmethod
    def check_of(self, node: ast.expr) -> ast.expr:
        """Return the call that checks the value of an annotation.

        Args:
            node: The annotation.
        """

    def change_annotation(self, node: ast.expr | None) -> ast.expr | None:
        """Return an annotation with its check; None for none.

        Args:
            node: The annotation.
        """
        return None if node is None else self.check_of(self.visit(node))

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Change the annotation of a parameter."""
        node.annotation = self.change_annotation(node.annotation)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Change the annotation of a variable or a field."""
        node.annotation = self.check_of(self.visit(node.annotation))
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_TypeAlias(self, node: Any) -> ast.AST:  # since Python 3.12
        """Change the value of an alias, which is evaluated later."""
        node.value = self.change_annotation(node.value)
        node.type_params = [self.visit(each) for each in node.type_params]
        return node

    def visit_TypeVar(self, node: Any) -> ast.AST:  # since Python 3.12
        """Change the bound and the default of a type variable."""
        for field in ("bound", "default_value"):
            setattr(node, field, self.change_annotation(getattr(node, field, None)))
        return node

    visit_ParamSpec = visit_TypeVarTuple = visit_TypeVar  # noqa: N815
