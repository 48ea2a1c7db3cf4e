"""The model that a statement names: one of the zoo, or a user's own."""

from __future__ import annotations

from sqlflow_elastic.compiler.program_text import ProgramText, did_you_mean
from sqlflow_elastic.compiler.user_models import NotAModelError, find_user_model, registered
from sqlflow_elastic.language import ast
from sqlflow_elastic.models.zoo import declarations


def find_model(program: ProgramText, name: ast.Name) -> declarations.Model:
    """The model of a name after TO TRAIN. Raises: CompileError: there is none, or it is not available yet."""
    found = declarations.find(name.text)
    if found is not None:
        return found
    known = [model.name for model in declarations.MODELS]
    if declarations.is_later(name.text):
        raise program.error(name.span, f"the model '{name.text}' is not available yet", f"there are {', '.join(known)}")
    try:
        own = find_user_model(name.text)
    except NotAModelError as error:
        hint = "a model is a function annotated -> keras.Model, or a class derived from keras.Model"
        raise program.error(name.span, f"'{name.text}' is not a model: {error}", hint) from None
    if own is not None:
        return own
    plain = declarations.plain_name(name.text)
    hint = did_you_mean(plain, [*known, *declarations.LATER, *registered()]) or f"there are {', '.join(known)}"
    raise program.error(name.span, f"there is no model '{name.text}'", hint)
