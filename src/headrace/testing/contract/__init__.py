"""The contract of stores as a pytest suite: `headrace.store` says what a store must do, this tests it.

A store of your own is tested by two files. `conftest.py` says how the store is made:

    from headrace.testing.contract import StoreUnderTest

    @pytest.fixture
    def store_under_test(tmp_path):
        return StoreUnderTest(lambda namespace, clock: MyStore(tmp_path / namespace, clock=clock))

and `test_contract.py` brings in the tests:

    from headrace.testing.contract import suite

`pytest test_contract.py -k test_append` runs those of one verb. The suite needs anyio, hypothesis and pytest:
`pip install 'headrace[testing]'`.
"""

from headrace.core.runtime.clock import MovableClock

from .needs import check_needs

check_needs()

from .suite import Suite  # noqa: E402  what it imports may be missing
from .under_test import StoreUnderTest  # noqa: E402

#: Brought into a test module, it stands for all tests of the contract.
suite = Suite()

__all__ = ["MovableClock", "StoreUnderTest", "suite"]
