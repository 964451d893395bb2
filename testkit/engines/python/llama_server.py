"""Runs llama.cpp's own HTTP server from the xllamacpp wheel: llama_server.py GGUF PORT rank|chat"""

import sys
import time

import xllamacpp

path, port, kind = sys.argv[1:4]
params = xllamacpp.CommonParams()
params.model.path = path
# `hostnames` is a string or a list, depending on the release.
params.hostnames = '127.0.0.1' if isinstance(getattr(params, 'hostnames', None), str) else ['127.0.0.1']
params.port = int(port)
params.n_ctx = 4096
params.n_parallel = 4
params.n_batch = 1024
params.n_ubatch = 1024
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.warmup = False
params.endpoint_metrics = True
params.endpoint_slots = True
if kind == 'rank':
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
server = xllamacpp.Server(params)
print('listening', server.listening_address, flush=True)
while True:
    time.sleep(3600)
