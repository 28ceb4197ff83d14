"""What needs an extra says which one when it is missing."""

import sys

import pytest

from qlab.cron import check_cron


def test_a_cron_schedule_names_the_extra_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)  # what `import cronsim` finds where it is not installed
    with pytest.raises(RuntimeError, match=r"pip install 'qlab-course\[schedule\]'"):
        check_cron("0 3 * * *", "Asia/Ho_Chi_Minh")
