"""The next evaluation, in the task and at the inputs that help the target most for the cost.

A space says what inputs may be (space.py). The fitted model gives the target's mean and variance with their derivatives
(surface.py, mixture.py) and what an evaluation of another task would change there (response.py); acquisitions put a
value on both (acquisition.py), a search climbs them (search.py), and the best for its cost is suggested (next.py).
"""

from aligngp.suggest.goal import default_target, read_goal
from aligngp.suggest.next import Suggestion, suggest
from aligngp.suggest.space import Choice, Integer, Real

__all__ = ["Choice", "Integer", "Real", "Suggestion", "default_target", "read_goal", "suggest"]
