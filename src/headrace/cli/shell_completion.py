"""Completion where click's own scripts do not suffice.

bash takes `shop:app` for three words, because a colon is one of its COMP_WORDBREAKS. So the script passes the
line as it was typed, and cuts from each answer what stands before the last colon.

In fish, click's script ends an answer at its first comma: lists such as `mails,reports`, and explanations.
"""

from __future__ import annotations

import os
from typing import ClassVar

from click.shell_completion import BashComplete, FishComplete, add_completion_class, split_arg_string

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    local line="${COMP_LINE:0:$COMP_POINT}"
    local word="${line##*[[:space:]]}"
    local before=""
    if [[ "$COMP_WORDBREAKS" == *:* ]]; then
        before="${word%%"${word##*:}"}"
    fi
    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == 'dir' ]]; then
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("${value#"$before"}")
        fi
    done
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class LineCompletion(BashComplete):
    """Gets the line up to the cursor in place of the words."""

    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)[1:]
        if not words or line[-1:].isspace():
            return words, ""
        return words[:-1], words[-1]


class WholeAnswers(FishComplete):
    """Parts the kind of an answer from the answer at the first comma only."""

    source_template: ClassVar[str] = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


add_completion_class(LineCompletion, "bash")
add_completion_class(WholeAnswers, "fish")
