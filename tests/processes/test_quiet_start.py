"""While modules are imported, nothing is collected, and packages that are not needed stay away."""

import gc
import importlib
import sys

import pytest

from data_pipelines.quiet import keep_loaded, quiet_start


def test_hidden_packages_are_not_found_and_can_be_imported_later():
    sys.modules.pop("wave", None)
    with quiet_start(("wave", "json")):
        assert not gc.isenabled() and importlib.import_module("json")  # which was there before
        with pytest.raises(ImportError):
            importlib.import_module("wave")
    assert gc.isenabled() and importlib.import_module("wave") and importlib.import_module("json")


def test_an_import_that_fails_leaves_all_as_it_was():
    sys.modules.pop("wave", None)
    with pytest.raises(ModuleNotFoundError), quiet_start(("wave",)):
        importlib.import_module("there_is_no_such_module")
    assert gc.isenabled() and "wave" not in sys.modules


def test_what_is_loaded_is_left_alone_in_a_process_of_its_own_only():
    before, made = gc.get_freeze_count(), [[] for _ in range(100)]
    keep_loaded(in_own_process=False)
    keep_loaded()
    assert gc.get_freeze_count() == before
    try:
        keep_loaded(in_own_process=True)
        first = gc.get_freeze_count()
        made += [[] for _ in range(100)]
        keep_loaded()
        assert gc.get_freeze_count() >= first + 100 > before + 200
    finally:
        keep_loaded(in_own_process=False)
        gc.unfreeze()
