"""Scores texts with transformers alone: reference.py MODEL

Each line of the input is a list of requests; each line of the output is the list of answers. A request
is {"messages": […]}, {"text": …}, {"pair": [prompt, response]} or {"llamacpp": [prompt, response]}.
"llamacpp" joins the two as llama.cpp's /rerank does. `special`: whether the tokenizer adds its special
tokens (default: not to messages). An answer is {"tokens": n, "logits": […]}; for token classifiers,
the logits of the last token.
"""

import json
import sys

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

torch.set_num_threads(1)
folder = sys.argv[1]
architecture = AutoConfig.from_pretrained(folder).architectures[0]
model = getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)


def ids_of(request):
    plain = lambda text, special: tokenizer(text, add_special_tokens=special)['input_ids']
    if 'messages' in request:
        text = tokenizer.apply_chat_template(request['messages'], tokenize=False)
        return plain(text, request.get('special', False))
    if 'pair' in request:
        return tokenizer(*request['pair'])['input_ids']
    if 'llamacpp' in request:
        query, document = (plain(text, False) for text in request['llamacpp'])
        bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
        return [bos, *query, eos, *document, eos]
    return plain(request['text'], request.get('special', True))


def answer_to(request):
    ids = ids_of(request)
    logits = model(input_ids=torch.tensor([ids])).logits[0]
    return {'tokens': len(ids), 'logits': (logits[-1] if logits.ndim == 2 else logits).tolist()}


with torch.no_grad():
    for line in sys.stdin:
        print(json.dumps([answer_to(request) for request in json.loads(line)]), flush=True)
