"""What can go wrong, said to a person.

Every message names the task and the column where there is one, what was expected, what came, and what to do.
"""


class AligngpError(Exception):
    """Base of every error that aligngp raises on purpose."""


class DataError(AligngpError, ValueError):
    """A table, a task or a column is not usable as it is."""


class SettingError(AligngpError, ValueError):
    """A keyword has a value that it cannot have."""


class NotFittedError(AligngpError, RuntimeError):
    """A result was asked of a model that has not been fitted."""


class TrainingError(AligngpError, RuntimeError):
    """Training could not go on: the objective or a parameter stopped being finite."""


class ModelFileError(AligngpError, ValueError):
    """A file is not a model that this version can read."""


class MissingPackageError(AligngpError, ModuleNotFoundError):
    """A package that only some calls need is not installed."""


class AligngpWarning(UserWarning):
    """Something usable, but probably not what was meant."""
