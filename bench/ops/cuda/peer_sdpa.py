#!/usr/bin/env python3
"""A peer of sparse attention decode: PyTorch's scaled_dot_product_attention on K/V gathered from the
same number of selected tokens, released dimensions. Prints Markdown; needs PyTorch and a GPU."""

import statistics

import torch
import torch.nn.functional as functional

QUERY_HEADS, KV_HEADS, HEAD_DIM, TOKENS, CONTEXT = 24, 2, 256, 2048, 32768


def median_us(run, sets):
    run(0)
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        run(0)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for i in range(sets):
            run(i)
    times = []
    for _ in range(15):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(end) / sets)
    return statistics.median(times)


def main():
    print(f"\n| peer (torch {torch.__version__}, FP16) | rows | us |\n| --- | --- | --- |")
    for rows in (1, 4, 16, 64):
        sets = max(4, 64 // rows)
        pool = torch.randn(64, KV_HEADS, CONTEXT, 2 * HEAD_DIM, device="cuda", dtype=torch.half)
        query = torch.randn(rows, QUERY_HEADS, 1, HEAD_DIM, device="cuda", dtype=torch.half)
        shape = (sets, rows, KV_HEADS, TOKENS, HEAD_DIM)
        gathered = [torch.randn(shape[1:], device="cuda", dtype=torch.half) for _ in range(2 * min(sets, 8))]
        blocks = torch.rand(sets, rows, CONTEXT // 4, device="cuda").argsort(-1)[..., : TOKENS // 4]
        tokens = (blocks.sort(-1).values[..., None] * 4 + torch.arange(4, device="cuda")).flatten(-2)
        sequences = (torch.arange(sets * rows, device="cuda") % 64).view(sets, rows)

        def attend(k, v):
            return functional.scaled_dot_product_attention(query, k, v, enable_gqa=True)

        def on_gathered(i):
            i = 2 * (i % (len(gathered) // 2))
            attend(gathered[i], gathered[i + 1])

        def with_gather(i):
            heads = torch.arange(KV_HEADS, device="cuda")[None, :, None]
            both = pool[sequences[i][:, None, None], heads, tokens[i][:, None, :]]
            attend(both[..., :HEAD_DIM], both[..., HEAD_DIM:])

        print(f"| SDPA on K/V gathered before | {rows} | {median_us(on_gathered, sets):.1f} |")
        print(f"| gather + SDPA | {rows} | {median_us(with_gather, sets):.1f} |")
        del pool, gathered


if __name__ == "__main__":
    main()
