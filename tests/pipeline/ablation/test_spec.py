import pytest

from configs.errors import ConfigError
from pipeline.ablation.spec import load_spec


def write(tmp_path, text):
    path = tmp_path / "ablation.yaml"
    path.write_text(text)
    return path


def test_a_file_with_a_grid(tmp_path):
    path = write(
        tmp_path,
        "config: base.yaml\noverrides: [train.total_steps=5]\nseeds: [1, 2]\n"
        "grid: {actor.prox_logp_method: [recompute, linear], actor.use_decoupled_loss: [true]}\n",
    )
    spec = load_spec(path, [], None, ["run.seed=9"])
    assert spec.config == tmp_path / "base.yaml"
    assert [v.name for v in spec.variants] == ["recompute,true", "linear,true"]
    assert spec.variants[1].overrides == ["actor.prox_logp_method=linear", "actor.use_decoupled_loss=true"]
    assert spec.seeds == (1, 2)
    assert spec.overrides == ("train.total_steps=5", "run.seed=9")


def test_a_runs_config_with_grid_options(tmp_path):
    path = write(tmp_path, "train: {total_steps: 3}\n")
    spec = load_spec(path, ["actor.eps_clip=0.1,0.2", "train.batch_size=4,8"], [3], [])
    assert spec.config == path
    assert [v.name for v in spec.variants] == ["0.1,4", "0.1,8", "0.2,4", "0.2,8"]


@pytest.mark.parametrize(
    ("text", "grid", "message"),
    [
        ("train: {total_steps: 3}\n", [], "the grid is empty"),
        ("train: {total_steps: 3}\n", ["actor.eps_clip"], "is not key=value1,value2"),
        ("train: {total_steps: 3}\n", ["run.seed=1,2"], "use --seeds"),
        ("grid: {a: [1]}\n", [], "'config' is missing"),
        ("grid: {a: [1]}\nconfig: x\nsteps: 3\n", [], "'steps' is not a key of an ablation file"),
        ("3\n", [], "holds no settings"),
    ],
)
def test_unusable_specs_say_why(tmp_path, text, grid, message):
    with pytest.raises(ConfigError, match=message):
        load_spec(write(tmp_path, text), grid, None, [])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_spec(tmp_path / "nowhere.yaml", [], None, [])
