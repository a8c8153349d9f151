-- Version 11: 0 stands for a budget that has no row. A row with this number would stop the claims of its limits.

ALTER TABLE headrace.budgets ADD CHECK (budget > 0) NOT VALID;
