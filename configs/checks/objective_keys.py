"""Which `actor` keys have no effect under which other choice. Data only: the check that refuses them reads this.

A key counts as set when it differs from its default in `configs/actor_schema.py`.
"""

from dataclasses import dataclass

OBJECTIVES: tuple[str, ...] = ("ppo", "gspo", "cispo", "reinforce", "sapo")

# Keys (below `actor.`) that an objective has no place for.
IGNORED_BY: dict[str, tuple[str, ...]] = {
    "eps_clip": ("reinforce", "sapo"),
    "eps_clip_higher": ("reinforce", "sapo"),
    "c_clip": ("gspo", "cispo", "reinforce", "sapo"),
    "sapo_temperature_pos": ("ppo", "gspo", "cispo", "reinforce"),
    "sapo_temperature_neg": ("ppo", "gspo", "cispo", "reinforce"),
    # The second moment is a mean over tokens; one ratio per sequence leaves no token to drop.
    "m2_threshold": ("gspo",),
    # GSPO's behavior weight is the geometric mean whatever the level says.
    "behavior_correction.level": ("gspo",),
}


@dataclass(frozen=True)
class Requirement:
    """`key` has an effect only where `needs` takes one of `values`; `objectives` limits whom it concerns."""

    key: str  # below `actor.`
    needs: str  # below `actor.`
    values: tuple[object, ...]  # empty: any value but the default one
    reason: str
    objectives: tuple[str, ...] = OBJECTIVES


_DECOUPLED = (True,)
_APPROXIMATED = ("loglinear", "linear", "metrics")
_ALL_BUT_REINFORCE = ("ppo", "gspo", "cispo", "sapo")  # REINFORCE corrects its one weight either way

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("prox_logp_method", "use_decoupled_loss", _DECOUPLED, "standard PPO has no proximal policy"),
    Requirement("prox_version_clock", "use_decoupled_loss", _DECOUPLED, "standard PPO has no proximal policy"),
    Requirement("prox_version_clock", "prox_logp_method", _APPROXIMATED, "only the approximations count versions"),
    *(
        Requirement(
            f"behavior_correction.{name}",
            "use_decoupled_loss",
            _DECOUPLED,
            "standard PPO has no behavior weight",
            _ALL_BUT_REINFORCE,
        )
        for name in ("mode", "level", "lower", "upper", "token_veto")
    ),
    Requirement("behavior_correction.lower", "behavior_correction.mode", ("truncate", "mask"), "nothing is bounded"),
    Requirement("behavior_correction.upper", "behavior_correction.mode", ("truncate", "mask"), "nothing is bounded"),
    # The filter looks at the whole minibatch before its first forward pass, so the proximal
    # log-probabilities have to exist by then.
    Requirement("m2_threshold", "use_decoupled_loss", _DECOUPLED, "the second moment is of proximal − behavior"),
    Requirement("m2_threshold", "prox_logp_method", ("recompute", "metrics"), "it needs them before the minibatch"),
    Requirement("loss_agg_const", "loss_agg_mode", ("token-sum-const",), "no other aggregation divides by it"),
    Requirement("kl.type", "kl.coef", (), "no KL term without a coefficient"),
    Requirement("kl.place", "kl.coef", (), "no KL term without a coefficient"),
    Requirement("kl.reset_ref_every", "kl.coef", (), "no reference model without a KL coefficient"),
    Requirement("advantage.overlong_penalty", "advantage.overlong_buffer", (), "no penalty without a buffer"),
)
