"""The notebook of examples/, executed against a service. It is skipped if its packages are not installed."""

import importlib.util
import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from rewardops import RewardOps
from tests.service import ROOT, Service, requires_service, rollouts

NOTEBOOK = ROOT / "examples" / "explore_run.ipynb"
PACKAGES = ("nbclient", "nbformat", "ipykernel", "pandas", "pyarrow", "matplotlib", "datasets")


class NotebookFile(unittest.TestCase):
    def test_it_has_no_outputs(self):
        for cell in json.loads(NOTEBOOK.read_text())["cells"]:
            self.assertEqual((cell.get("outputs", []), cell.get("execution_count")), ([], None))


@requires_service
class Notebook(unittest.TestCase):
    def test_it_plots_a_run_and_exports_pairs(self):
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            self.skipTest(f"not installed: {', '.join(missing)}")
        import datasets
        import nbclient
        import nbformat

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        with Service(REWARDOPS_WORKERS="1") as service, tempfile.TemporaryDirectory() as folder:
            with RewardOps(service.url, run="notebook") as client:
                for step in range(3):
                    samples = rollouts(64, group_size=8)
                    samples = [
                        {**sample, "score": (i % 2) * (i < 32)} for i, sample in enumerate(samples)
                    ]
                    client.submit(samples, step=step).wait()
            environment = {
                "REWARDOPS_URL": service.url,
                "EXPLORE_RUN_OUT": folder,
                "HF_HUB_OFFLINE": "1",
                "HF_HOME": folder,
                "PYTHONPATH": str(ROOT / "packages/client-python/src"),
            }
            with mock.patch.dict(os.environ, environment):
                nbclient.NotebookClient(notebook, timeout=180, kernel_name="python3").execute()
            outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
            images = [output for output in outputs if "image/png" in output.get("data", {})]
            self.assertEqual(len(images), 2)

            def rows(name):
                return datasets.Dataset.from_parquet(
                    str(Path(folder, name)), cache_dir=folder
                ).to_list()

            pairs = rows("notebook-pairs.parquet")
            self.assertEqual(len(pairs), 12)
            for pair in pairs:
                self.assertEqual((pair["score_chosen"], pair["score_rejected"]), (1.0, 0.0))
                self.assertEqual(pair["chosen"][0]["role"], "assistant")
            labels = [row["label"] for row in rows("notebook-kto.parquet")]
            self.assertEqual((labels.count(True), labels.count(False)), (48, 144))


if __name__ == "__main__":
    unittest.main()
