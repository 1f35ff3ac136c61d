from .plan import AoePlan as AoePlan
from .results import find_results as find_results
from .results import in_order as in_order
from .results import read_results as read_results
