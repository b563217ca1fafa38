"""Process that calls methods of runtimes."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar, TypeVarTuple

from .own_process import LibraryProcess, ProcessEnded, answer_all
from .runtimes import Unavailable

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_Request = tuple[Callable[..., object], Sequence[object]]


class Worker(LibraryProcess):
    """Process that calls methods of picklable objects."""

    def __init__(self):
        super().__init__(sys.executable, "-m", __name__)

    def call(
        self, method: Callable[[*_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """
        Call a method in the process and return its result.

        Raises:
            Unavailable: if the method raises an error or ends the process.
        """
        try:
            is_result, answer = self.ask((method, arguments))
        except ProcessEnded:
            raise Unavailable("the library terminated its process") from None
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
        # Libraries raise errors of any class.
        line = str(error).strip().partition("\n")[0]
        return False, f"{type(error).__name__}: {line}"


if __name__ == "__main__":
    answer_all(_answer)
