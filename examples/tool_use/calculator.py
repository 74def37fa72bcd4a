"""An episode of several turns: the policy writes a calculation up to its `=`, and a calculator writes the result.

    9 * 4 =            sampled; `=` ends the turn
    36                 the calculator's; masked out of the loss
    36 - 5 =           sampled
    31                 the calculator's
    #### 31            sampled; scored

The quickstart's model knows this form from its worked solutions; with a calculator it need not get the numbers right.
"""

import re

from examples.quickstart.problems import apply
from exchange.types import Prompt, Trajectory
from rollout.episodes.episodes import EpisodeContext
from rollout.episodes.transcript import Transcript

MAX_CALLS = 3  # a problem takes two
END_OF_CALL = "="  # its token id is listed in rollout.sampling.stop_token_ids
CALL = re.compile(r"(\d{1,6}) ([+*-]) (\d{1,6}) =")
NOT_UNDERSTOOD = "?\n"


def tool_answer(written: str) -> str | None:
    """What the calculator writes after the policy's turn; None when that does not end in a call."""
    if not written.endswith(END_OF_CALL):
        return None
    call = CALL.fullmatch(written.splitlines()[-1])
    if call is None:
        return NOT_UNDERSTOOD
    left, operator, right = call.groups()
    return f"{apply(operator, int(left), int(right))}\n"


async def calculator(prompt: Prompt, context: EpisodeContext) -> Trajectory:
    """At most MAX_CALLS calls; the reward is that of the last turn alone, so that no number of a call is an answer."""
    transcript = Transcript(prompt.token_ids)
    completion = await context.generate(transcript.token_ids)
    transcript.add_completion(completion)
    for _ in range(MAX_CALLS):
        answer = tool_answer(context.decode(completion.token_ids))
        if answer is None:
            break
        transcript.add_environment(context.encode(answer))
        completion = await context.generate(transcript.token_ids)
        transcript.add_completion(completion)
    return transcript.trajectory(await context.score(prompt, completion))
