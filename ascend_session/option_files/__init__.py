"""The files that options point to: typed objects, readers, checkers and writers.

Each reader takes exactly what the vendor's parser takes, and each ``check`` says what that parser
would skip or take differently without telling.
"""

from ascend_session.option_files.base import OptionFile
from ascend_session.option_files.op_precision import MODES, OpPrecision
from ascend_session.option_files.precedence import Decision, decide_by_select
from ascend_session.option_files.remarks import Remark

__all__ = ["MODES", "Decision", "OpPrecision", "OptionFile", "Remark", "decide_by_select"]
