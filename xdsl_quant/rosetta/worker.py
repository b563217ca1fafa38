"""A process that calls methods of runtimes."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

from .own_process import OwnProcess, ProcessEnded, answer_all
from .runtimes import Unavailable

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_Request = tuple[Callable[..., object], Sequence[object]]


class Worker(OwnProcess):
    """A process that calls methods."""

    def __init__(self):
        super().__init__(sys.executable, "-m", __name__)

    def call(
        self, method: Callable[[*_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """
        What a method of an object returns in the process.

        Raises:
            Unavailable: with the message of what it raises, or if it ends the process.
        """
        try:
            is_result, answer = self.ask((method, arguments))
        except ProcessEnded:
            raise Unavailable("its library ended the process") from None
        if not is_result:
            raise Unavailable(answer)
        return answer


def _answer(request: _Request) -> tuple[bool, object]:
    method, arguments = request
    try:
        return True, method(*arguments)
    except Unavailable as error:
        return False, str(error)
    except Exception as error:
        # Libraries raise what they like.
        line = str(error).strip().partition("\n")[0]
        return False, f"{type(error).__name__}: {line}"


if __name__ == "__main__":
    answer_all(_answer)
