"""Creates the tiny models with random weights: models.py OUT TEXTS.

TEXTS is a text file to train the tokenizer on.

Needs transformers 4. Each model is a folder in OUT:

    rm1     one label, chat template, the tokenizer adds a BOS
    rm1raw  the same weights, no chat template
    rm1bos  the same weights, a chat template that writes the BOS itself
    rmq2    one label, Qwen2
    rm2     two labels, Qwen2
    judge   a causal language model with random weights
    yes     a judge that answers Yes with probability 0.75 and No with 0.25, then stops
    emb     an embedding model
    prm     a process reward model: one label for each token
    cross   a cross-encoder without a chat template (BERT)
    rank1   a Qwen3 reranker with one label
    rank2   a Qwen3 reranker with two labels
"""

import math
import pathlib
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForSequenceClassification,
    Qwen2ForTokenClassification,
    Qwen3Config,
    Qwen3ForSequenceClassification,
)

OUT, TEXTS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
MAX_TOKENS = 1024
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=['<s>', '</s>', '<|im_start|>', '<|im_end|>', '<pad>'],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [TEXTS.read_text(), ' yes no Yes No {"score": 1, 2, 3, 4, 5} 0123456789 user assistant ']
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single='<s> $A',
        pair='<s> $A </s> $B',
        special_tokens=[('<s>', 0), ('</s>', 1)],
    )
    return tokenizer


TOKENIZER = train_tokenizer()


def tokenizer_of(template, inputs=('input_ids', 'attention_mask')):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=TOKENIZER,
        bos_token='<s>',
        eos_token='</s>',
        pad_token='<pad>',
        model_max_length=MAX_TOKENS,
        model_input_names=list(inputs),
    )
    if template:
        tokenizer.chat_template = template
    return tokenizer


VOCABULARY = len(tokenizer_of(None))
SHARED = dict(
    vocab_size=VOCABULARY,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    max_position_embeddings=MAX_TOKENS,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=4,
    torch_dtype='float32',
)
LLAMA = dict(SHARED, head_dim=32)


def widen(model):
    """Scales the weights up, because all texts score nearly the same with initial weights."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith('score'):
                weight.mul_(37.5)
            elif weight.ndim == 2:
                weight.mul_(6)
    return model.float()


def save(model, name, tokenizer):
    model.save_pretrained(OUT / name, safe_serialization=True)
    tokenizer.save_pretrained(OUT / name)
    print(name, flush=True)


def seeded(seed, make):
    torch.manual_seed(seed)
    return widen(make())


def make_yes(judge):
    """Saves `yes`. Its attention and MLP have no effect, so the last token determines the next."""
    tokenizer = tokenizer_of(TEMPLATE)
    tokenizer.add_tokens(['Yes', 'No'])
    judge.resize_token_embeddings(len(tokenizer))
    torch.manual_seed(0)
    size, width = judge.model.embed_tokens.weight.shape
    first_of = lambda text: tokenizer(text, add_special_tokens=False)['input_ids']
    prompt_end, (yes,), (no,) = first_of('assistant\n')[-1], first_of('Yes'), first_of('No')
    with torch.no_grad():
        for layer in judge.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        table = torch.randn(size, width) * 0.05
        table[:, :3] = 0
        for axis, token in enumerate([prompt_end, yes, no]):
            table[token] = 0
            table[token, axis] = 1
        judge.model.embed_tokens.weight.copy_(table)
        judge.model.norm.weight.fill_(1)
        # The length that RMSNorm gives each of the three embeddings.
        length = math.sqrt(width)
        head = torch.zeros(size, width)
        head[yes, 0] = (30 + math.log(3)) / length
        head[no, 0] = 30 / length
        head[tokenizer.eos_token_id, 1] = head[tokenizer.eos_token_id, 2] = 40 / length
        judge.lm_head.weight.copy_(head)
    save(judge, 'yes', tokenizer)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rm1 = seeded(1, lambda: LlamaForSequenceClassification(LlamaConfig(**LLAMA, num_labels=1)))
    save(rm1, 'rm1', tokenizer_of(TEMPLATE))
    save(rm1, 'rm1raw', tokenizer_of(None))
    save(rm1, 'rm1bos', tokenizer_of('{{ bos_token }}' + TEMPLATE))
    qwen2 = lambda labels: Qwen2ForSequenceClassification(Qwen2Config(**SHARED, num_labels=labels))
    save(seeded(2, lambda: qwen2(1)), 'rmq2', tokenizer_of(TEMPLATE))
    save(seeded(3, lambda: qwen2(2)), 'rm2', tokenizer_of(TEMPLATE))
    judge = seeded(4, lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)))
    save(judge, 'judge', tokenizer_of(TEMPLATE))
    make_yes(judge)
    save(seeded(5, lambda: LlamaModel(LlamaConfig(**LLAMA))), 'emb', tokenizer_of(TEMPLATE))
    prm = seeded(6, lambda: Qwen2ForTokenClassification(Qwen2Config(**SHARED, num_labels=1)))
    save(prm, 'prm', tokenizer_of(TEMPLATE))
    torch.manual_seed(7)
    cross = BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=128,
            max_position_embeddings=512,
            num_labels=1,
            pad_token_id=4,
        )
    )
    with torch.no_grad():
        for name, weight in cross.named_parameters():
            if weight.ndim == 2:
                weight.mul_(6)
    save(cross, 'cross', tokenizer_of(None, ('input_ids', 'attention_mask', 'token_type_ids')))
    for labels in (1, 2):
        config = Qwen3Config(**LLAMA, num_labels=labels)
        rank = seeded(7 + labels, lambda: Qwen3ForSequenceClassification(config))
        save(rank, f'rank{labels}', tokenizer_of(TEMPLATE))


main()
