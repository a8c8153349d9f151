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

A new store is best written in the order of these folders: `queues`, `unique_keys`, `upkeep`, `looking`,
`steering`, `topics`, `limits`, `machines`. Tests of a capability that the store lacks (`PartitionedStore`,
`Limiting`, `Moving`) are skipped. `kit` has what the tests share.
"""

from importlib.util import find_spec

from headrace.core.errors import ConfigurationError
from headrace.core.runtime.clock import MovableClock

if missing := [name for name in ("anyio", "hypothesis", "pytest") if find_spec(name) is None]:
    raise ConfigurationError(
        f"headrace.testing.contract needs {', '.join(missing)}, which is not installed: "
        "pip install 'headrace[testing]'"
    )

from .suite import Suite
from .under_test import StoreUnderTest

#: Brought into a test module, it stands for all tests of the contract.
suite = Suite()

__all__ = ["MovableClock", "StoreUnderTest", "suite"]
