"""lm-eval's `local-completions` against a running server. scripts/setup.sh --python installs it."""

import unittest

from clients import MODEL_NAME, shared_api

try:
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
except ImportError:
    LocalCompletionsAPI = None

CONTEXT = "The barrel is"
CONTINUATIONS = (" red", " and the of", " broken.")


@unittest.skipUnless(LocalCompletionsAPI, "lm_eval is not installed")
class LmEval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.api = shared_api()
        # The tokenizer is the server's own, which lm-eval finds by itself.
        cls.model = LocalCompletionsAPI(
            base_url=cls.api.url + "/v1/completions", model=MODEL_NAME, max_length=1024
        )

    @staticmethod
    def instances(kind, arguments):
        return [Instance(kind, {}, argument, i) for i, argument in enumerate(arguments)]

    def test_finds_the_tokenizer(self):
        self.assertEqual(self.model.tokenizer_backend, "remote")

    def test_loglikelihood(self):
        arguments = [(CONTEXT, continuation) for continuation in CONTINUATIONS]
        scores = self.model.loglikelihood(self.instances("loglikelihood", arguments))
        for continuation, (score, greedy) in zip(CONTINUATIONS, scores):
            answer = self.api.post(
                "/v1/completions",
                prompt=CONTEXT + continuation,
                max_tokens=0,
                echo=True,
                logprobs=1,
            )["choices"][0]["logprobs"]
            start = next(
                i for i, at in enumerate(answer["text_offset"]) if at >= len(CONTEXT)
            )
            self.assertAlmostEqual(score, sum(answer["token_logprobs"][start:]), places=4)
            best = [max(top.values()) for top in answer["top_logprobs"][start:]]
            self.assertEqual(greedy, best == answer["token_logprobs"][start:])

    def test_greedy_continuation_is_greedy(self):
        text = self.api.post(
            "/v1/completions", prompt=CONTEXT, max_tokens=3, temperature=0
        )["choices"][0]["text"]
        ((_, greedy),) = self.model.loglikelihood(
            self.instances("loglikelihood", [(CONTEXT, text)])
        )
        self.assertTrue(greedy)

    def test_generate_until(self):
        (text,) = self.model.generate_until(
            self.instances("generate_until", [(CONTEXT, {"until": ["."], "max_gen_toks": 20})])
        )
        self.assertNotIn(".", text)


if __name__ == "__main__":
    unittest.main()
