"""All cases of the oracle: the tables of oracle_cases*.py, joined.

A vocabulary, and the form a committed vector has, follow from a case's place in its own table: append to a table, or
add one, and no other case changes.
"""
import oracle_cases
import oracle_cases_deberta
import oracle_cases_dense
import oracle_cases_enc
import oracle_cases_encdec
import oracle_cases_heads
import oracle_cases_kv
import oracle_cases_moe
import oracle_cases_remote
import oracle_cases_slot

TABLES = [module.CASES for module in (oracle_cases, oracle_cases_dense, oracle_cases_encdec, oracle_cases_moe,
                                      oracle_cases_remote, oracle_cases_enc, oracle_cases_slot, oracle_cases_heads,
                                      oracle_cases_kv, oracle_cases_deberta)]
CASES = {name: case for table in TABLES for name, case in table.items()}
assert len(CASES) == sum(map(len, TABLES)), "a name is in two tables"

VOCABS = ((97, 101, 103, 107, 109, 113, 127, 131), (47, 53, 59, 61, 67, 71, 73, 79))


def place_of(name):
    """The place of a case in its table."""
    return next(list(table).index(name) for table in TABLES if name in table)


def vocab_of(name, size):
    """A vocabulary that is a multiple of nothing, another one for each neighbour in a table."""
    return VOCABS[size.vocab][place_of(name) % 8]
