"""Folders whose weights and config do not belong together are refused from the files' headers."""

import json
import os

import pytest

from configs.errors import ConfigError
from examples.quickstart.tokenizer import save_tokenizer
from examples.quickstart.warm_start import WarmStart, new_model
from pipeline.preflight.model_weights import check_weights_fit


@pytest.fixture
def folder(tmp_path):
    new_model(save_tokenizer(tmp_path), WarmStart(hidden_size=32, num_layers=2)).save_pretrained(tmp_path)
    return tmp_path


def edit(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_whole_model_passes(folder):
    check_weights_fit(str(folder), False)


def test_a_tied_head_need_not_be_stored_but_an_untied_one_must(folder):
    edit(folder, tie_word_embeddings=False)
    with pytest.raises(ConfigError, match=r"holds no tensor lm_head\.weight"):
        check_weights_fit(str(folder), False)


def test_weights_of_another_size_are_named(folder):
    edit(folder, intermediate_size=48)
    with pytest.raises(ConfigError, match=r"mlp\.\w+_proj\.weight of shape .* its config\.json asks for"):
        check_weights_fit(str(folder), False)


def test_a_model_with_more_layers_than_weights_is_refused(folder):
    types = json.loads((folder / "config.json").read_text()).get("layer_types")
    edit(folder, num_hidden_layers=3, **({"layer_types": [*types, types[-1]]} if types else {}))
    with pytest.raises(ConfigError, match=r"holds no tensor model\.layers\.2\."):
        check_weights_fit(str(folder), False)


@pytest.mark.parametrize("size", [0, 4, 100, 5000])
def test_a_file_that_is_cut_short_is_refused(folder, size):
    os.truncate(folder / "model.safetensors", size)
    with pytest.raises(ConfigError, match=r"holds a damaged model\.safetensors"):
        check_weights_fit(str(folder), False)


def test_names_on_the_hub_are_left_to_the_download():
    check_weights_fit("someone/some-model", False)
