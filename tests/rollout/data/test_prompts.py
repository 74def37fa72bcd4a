"""Prompt token ids, seen through a tokenizer with one token a character."""

import pytest

from configs.schema import DatasetConfig
from rollout.data.prompts import (
    encode_chats,
    encode_texts,
    prompt_problem,
    prompt_text,
    render_chat,
    uses_chat_template,
)
from tests.rollout.tiny_tokenizers import CHATML, NO_SYSTEM, WITH_BOS, byte_tokenizer


def test_chat_template_opens_the_assistants_turn_and_holds_system_prompt_and_suffix() -> None:
    tokenizer = byte_tokenizer(CHATML)
    config = DatasetConfig(system_prompt="Be brief.", prompt_suffix=" Go!")
    text = render_chat("2+2?", config, tokenizer)
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+2? Go!<|im_end|>\n<|im_start|>assistant\n"
    )
    (ids,) = encode_chats([text], tokenizer)
    assert tokenizer.decode(ids) == text
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_start|>")) == 3


def test_messages_keep_their_turns_and_only_the_last_gets_the_suffix() -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    text = render_chat(messages, DatasetConfig(prompt_suffix="!"), byte_tokenizer(WITH_BOS))
    assert text == "<s>[user]a[assistant]b[user]c![a]"
    assert messages[-1]["content"] == "c", "the data set's own messages stay as they are"
    assert prompt_text(messages) == "c"


def test_template_that_writes_bos_gets_no_second_one() -> None:
    tokenizer = byte_tokenizer(WITH_BOS, bos=True)
    (ids,) = encode_chats([render_chat("x", DatasetConfig(), tokenizer)], tokenizer)
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1


def test_plain_text_begins_with_one_bos_and_stays_open() -> None:
    tokenizer = byte_tokenizer(bos=True, closes=True)
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    once, written = encode_texts(["ab", "<s>ab"], tokenizer)
    assert once == written
    assert once[0] == bos and bos not in once[1:] and eos not in once
    assert tokenizer.decode(once[1:]) == "ab"


def test_plain_text_without_special_tokens_is_only_its_characters() -> None:
    tokenizer = byte_tokenizer()
    (ids,) = encode_texts(["abc"], tokenizer)
    assert len(ids) == 3


def test_end_token_that_the_text_itself_holds_stays() -> None:
    tokenizer = byte_tokenizer()
    (ids,) = encode_texts(["ab</s>"], tokenizer)
    assert ids[-1] == tokenizer.eos_token_id


def test_chat_template_is_used_when_there_is_one_and_it_is_wanted() -> None:
    assert uses_chat_template(DatasetConfig(), byte_tokenizer(CHATML))
    assert not uses_chat_template(DatasetConfig(chat_template="never"), byte_tokenizer(CHATML))
    assert not uses_chat_template(DatasetConfig(), byte_tokenizer())


def test_what_a_template_refuses_is_said() -> None:
    with pytest.raises(ValueError, match="System role not supported"):
        render_chat("x", DatasetConfig(system_prompt="s"), byte_tokenizer(NO_SYSTEM))


def test_two_system_messages_are_refused() -> None:
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(ValueError, match=r"unset dataset\.system_prompt"):
        render_chat(messages, DatasetConfig(system_prompt="s"), byte_tokenizer(CHATML))


@pytest.mark.parametrize("content", ["2+2?", [{"role": "user", "content": "2+2?"}]])
def test_usable_prompts_have_no_problem(content: object) -> None:
    assert prompt_problem(content) is None
