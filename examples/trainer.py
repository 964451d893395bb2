#!/usr/bin/env python3
"""A training loop: submits a step's rollouts and receives the rewards group by group as they complete."""
import json
import os
import urllib.error
import urllib.request

URL = os.environ.get("REWARDOPS_URL", "http://127.0.0.1:3000")


def call(procedure, **payload):
    body = json.dumps(payload).encode()
    request = urllib.request.Request(f"{URL}/api/trpc/{procedure}", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["result"]["data"]
    except urllib.error.HTTPError as refusal:  # its body has a message and a hint
        error = json.load(refusal)["error"]
        raise SystemExit(f'{error["message"]}\n{error["data"]["hint"]}')


question = {"uid": "q-1", "dataSource": "openai/gsm8k", "prompt": "6 * 7?", "groundTruth": "42"}
responses = ["6 * 7 = 42\n#### 42", "6 * 7 = 41\n#### 41", "Forty-two.", "#### 42"]
samples = [{**question, "response": response} for response in responses]

batch = call("batches.submit", run="my-run", step=1, samples=samples)["batchId"]
cursor, done = None, False
while not done:
    page = call("batches.next", batchId=batch, after=cursor, samples=64, waitMs=30_000)
    for group in page["groups"]:
        print(group["seq"], group["uid"], [sample["score"] for sample in group["samples"]], group["mean"])
    cursor, done = page["cursor"], page["done"]
print(f"{URL}/batches/{batch}")
