"""Writes the tiny models as GGUF files for llama.cpp: gguf_models.py MODELS OUT.

Reads the folders of models.py: cross, rank1, rank2 (rerankers), yes (chat).
"""

import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

MODELS, OUT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


class Model:
    """The conversion of one model folder to one GGUF file."""

    def __init__(self, name, architecture):
        self.name = name
        self.config = json.loads((MODELS / name / 'config.json').read_text())
        self.weights = load_file(MODELS / name / 'model.safetensors')
        self.writer = gguf.GGUFWriter(OUT / f'{name}.gguf', architecture)
        config = self.config
        self.layers = config['num_hidden_layers']
        self.writer.add_name(name)
        self.writer.add_context_length(config['max_position_embeddings'])
        self.writer.add_embedding_length(config['hidden_size'])
        self.writer.add_block_count(self.layers)
        self.writer.add_feed_forward_length(config['intermediate_size'])
        self.writer.add_head_count(config['num_attention_heads'])

    def tensor(self, target, source):
        self.writer.add_tensor(target, self.weights[source].astype(np.float32))

    def both(self, target, source):
        self.tensor(f'{target}.weight', f'{source}.weight')
        self.tensor(f'{target}.bias', f'{source}.bias')

    def tokenizer(self, *, ends_with_eos):
        data = json.loads((MODELS / self.name / 'tokenizer.json').read_text())
        size = self.config['vocab_size']
        tokens, types = [f'[unused{i}]' for i in range(size)], [NORMAL] * size
        for token, index in data['model']['vocab'].items():
            tokens[index] = token
        for added in data['added_tokens']:
            tokens[added['id']] = added['content']
            types[added['id']] = CONTROL if added['special'] else USER_DEFINED
        merges = [m if isinstance(m, str) else ' '.join(m) for m in data['model']['merges']]
        writer = self.writer
        writer.add_tokenizer_model('gpt2')
        writer.add_tokenizer_pre('gpt-2')
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        writer.add_token_merges(merges)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_pad_token_id(4)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(ends_with_eos)

    def template(self):
        path = MODELS / self.name / 'chat_template.jinja'
        self.writer.add_chat_template(path.read_text())

    def labels(self, names):
        self.writer.add_pooling_type(gguf.PoolingType.RANK)
        self.writer.add_array(f'{self.writer.arch}.classifier.output_labels', names)

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        print(self.name, flush=True)


def decoder(model, base, *, head):
    """Adds the parts that llama and qwen3 share. `head`: name of the layer above the last norm."""
    config, writer = model.config, model.writer
    writer.add_head_count_kv(config['num_key_value_heads'])
    writer.add_key_length(config['head_dim'])
    writer.add_value_length(config['head_dim'])
    writer.add_layer_norm_rms_eps(config['rms_norm_eps'])
    writer.add_rope_freq_base(config.get('rope_theta', 10000.0))
    writer.add_vocab_size(config['vocab_size'])
    model.tensor('token_embd.weight', f'{base}.embed_tokens.weight')
    model.tensor('output_norm.weight', f'{base}.norm.weight')
    for i in range(model.layers):
        ours, theirs = f'blk.{i}', f'{base}.layers.{i}'
        model.tensor(f'{ours}.attn_norm.weight', f'{theirs}.input_layernorm.weight')
        model.tensor(f'{ours}.ffn_norm.weight', f'{theirs}.post_attention_layernorm.weight')
        for short, long in (('q', 'q_proj'), ('k', 'k_proj'), ('v', 'v_proj'), ('output', 'o_proj')):
            model.tensor(f'{ours}.attn_{short}.weight', f'{theirs}.self_attn.{long}.weight')
        for part in ('gate', 'up', 'down'):
            model.tensor(f'{ours}.ffn_{part}.weight', f'{theirs}.mlp.{part}_proj.weight')
        if f'{theirs}.self_attn.q_norm.weight' in model.weights:
            model.tensor(f'{ours}.attn_q_norm.weight', f'{theirs}.self_attn.q_norm.weight')
            model.tensor(f'{ours}.attn_k_norm.weight', f'{theirs}.self_attn.k_norm.weight')
    model.tensor(head, 'score.weight' if head.startswith('cls') else 'lm_head.weight')


def cross():
    model = Model('cross', 'bert')
    writer = model.writer
    writer.add_layer_norm_eps(model.config['layer_norm_eps'])
    writer.add_causal_attention(False)
    writer.add_token_type_count(model.config['type_vocab_size'])
    model.labels(['LABEL_0'])
    model.tokenizer(ends_with_eos=True)
    model.tensor('token_embd.weight', 'bert.embeddings.word_embeddings.weight')
    model.tensor('position_embd.weight', 'bert.embeddings.position_embeddings.weight')
    model.tensor('token_types.weight', 'bert.embeddings.token_type_embeddings.weight')
    model.both('token_embd_norm', 'bert.embeddings.LayerNorm')
    for i in range(model.layers):
        ours, theirs = f'blk.{i}', f'bert.encoder.layer.{i}'
        for short, long in (('q', 'query'), ('k', 'key'), ('v', 'value')):
            model.both(f'{ours}.attn_{short}', f'{theirs}.attention.self.{long}')
        model.both(f'{ours}.attn_output', f'{theirs}.attention.output.dense')
        model.both(f'{ours}.attn_output_norm', f'{theirs}.attention.output.LayerNorm')
        model.both(f'{ours}.ffn_up', f'{theirs}.intermediate.dense')
        model.both(f'{ours}.ffn_down', f'{theirs}.output.dense')
        model.both(f'{ours}.layer_output_norm', f'{theirs}.output.LayerNorm')
    model.both('cls', 'bert.pooler.dense')
    model.both('cls.output', 'classifier')
    model.close()


def rank(labels):
    model = Model(f'rank{labels}', 'qwen3')
    model.labels(['LABEL_0'] if labels == 1 else ['yes', 'no'])
    model.tokenizer(ends_with_eos=False)
    model.template()
    decoder(model, 'model', head='cls.output.weight')
    model.close()


def yes():
    # Attention has no effect in this model, so its weights need not have the row order that llama.cpp expects.
    model = Model('yes', 'llama')
    model.writer.add_rope_dimension_count(model.config['head_dim'])
    model.tokenizer(ends_with_eos=False)
    model.template()
    decoder(model, 'model', head='output.weight')
    model.close()


OUT.mkdir(parents=True, exist_ok=True)
cross()
rank(1)
rank(2)
yes()
