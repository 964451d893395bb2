"""A tokenizer and a model for the trainer scripts, created here because the Hugging Face Hub may be unreachable."""

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM


def tiny_tokenizer(end="<eos>", added=(), chat_template=None):
    """One token per character, and one per added text. `end` ends a response."""
    characters = ["\n", *map(chr, range(32, 127))]
    vocabulary = {token: i for i, token in enumerate(["<pad>", end, "<unk>", *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    # The default decoder puts a space between the characters.
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token=end,
        unk_token="<unk>",
        padding_side="left",
    )
    wrapped.add_tokens([AddedToken(text, normalized=False) for text in added])
    wrapped.chat_template = chat_template
    return wrapped


def tiny_model(tokenizer, folder, positions=256):
    """Saves the tokenizer and a model with about 30,000 random weights, the same ones each time. Returns the folder."""
    torch.manual_seed(7)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=positions,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
