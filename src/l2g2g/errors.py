"""Errors that a user can act on. Each class carries the exit code of the command line."""

_LONGEST_MESSAGE = 2000
NO_NATIVE_CORE = (
    "the native core is not built, so this runs several times slower; install g++ and python3-dev, then reinstall"
)


class L2G2GError(Exception):
    """An error with a message for the user: what is wrong, where, and what to do about it.

    The message is one printable line of bounded length, whatever names from a file it quotes.

    Example:
        >>> str(L2G2GError("no column 'a\\nb'"))
        "no column 'a\\\\nb'"
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(str(message)))


class InputError(L2G2GError, ValueError):
    """Bad input or usage: a file, a row, a value or an option that cannot be used as it is."""

    exit_code = 2


class MissingAttributeError(InputError, AttributeError):
    """An attribute that this object cannot have: `hasattr` is False, and `dir` and notebooks leave it out.

    Example:
        >>> class Model:
        ...     @property
        ...     def module_(self):
        ...         raise MissingAttributeError("the model has no module")
        >>> hasattr(Model(), "module_")
        False
    """


class ResourceError(L2G2GError, OSError):
    """Not enough memory or disk, or no permission."""

    exit_code = 3


class NumericalError(L2G2GError, ArithmeticError):
    """The numbers failed: a loss that is not finite, a collapsed embedding, a singular overlap."""

    exit_code = 4


class WorkerError(L2G2GError, RuntimeError):
    """A worker of a distributed run died or stopped answering."""

    exit_code = 5


class Interrupted(BaseException):
    """A signal ended the work. Like KeyboardInterrupt no Exception, so that no handler of failures catches it.

    Attributes:
        number: The signal.
        exit_code: 130 for SIGINT, 143 for SIGTERM.
    """

    def __init__(self, number: int, message: str = "interrupted") -> None:
        super().__init__(message)
        self.number = number
        self.exit_code = 128 + number


def find_interruption(error: BaseException) -> Interrupted | KeyboardInterrupt | None:
    """The interruption that lies behind an error, if there is one.

    Compiled code into which a signal came leaves by a SystemError, with the interruption as its cause.

    Example:
        >>> error = SystemError("returned a result with an exception set")
        >>> error.__cause__ = Interrupted(15)
        >>> find_interruption(error)
        Interrupted('interrupted')
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, (Interrupted, KeyboardInterrupt)):
            return cause
        cause = cause.__cause__
    return None


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its name where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]


def one_line(message: str) -> str:
    """A message that quotes what stands in a file, as one printable line of bounded length."""
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE // 2]} … {message[-_LONGEST_MESSAGE // 2 :]}"
    if message.isprintable():
        return message
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)
