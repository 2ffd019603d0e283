"""The whole loop: what was evaluated (history.py), ask and tell (optimizer.py), and running it (loop.py)."""

from aligngp.optimization.loop import Result, optimize
from aligngp.optimization.optimizer import Optimizer
from aligngp.optimization.trials import Trial

__all__ = ["Optimizer", "Result", "Trial", "optimize"]
