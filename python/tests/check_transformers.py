"""Models of transformers 5 with experts_implementation="batchgemm", beside "eager": five classes with random
weights, small, and Qwen3-MoE at the widths of Qwen3-30B. Logits, and gradients of all parameters after a
step. On the GPU in bfloat16 too, where there is one.

    PYTHONPATH=.. python3 check_transformers.py [--full]

Errors are of all elements together, relative: |ours - theirs| / |theirs|. Beside them is how far "grouped_mm"
is from "eager", where it runs.
"""

import sys

import torch
import transformers

import batchgemm.transformers

SMALL = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128)
EXPERTS = dict(moe_intermediate_size=48, num_experts=8, num_experts_per_tok=2)
MODELS = {
    "Qwen3Moe": {**SMALL, **EXPERTS, "head_dim": 16},
    "Mixtral": {**SMALL, "num_local_experts": 8, "num_experts_per_tok": 2},
    "GptOss": {**SMALL, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 2,
               "layer_types": ["full_attention"] * 2},
    "DeepseekV3": {**SMALL, "num_key_value_heads": 4, "moe_intermediate_size": 48, "n_routed_experts": 8,
                   "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 0,
                   "q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16,
                   "v_head_dim": 16},
    "Olmoe": {**SMALL, "num_experts": 8, "num_experts_per_tok": 2},
}
FULL = dict(vocab_size=1024, hidden_size=2048, intermediate_size=6144, num_hidden_layers=1,
            num_attention_heads=32, num_key_value_heads=4, head_dim=128, moe_intermediate_size=768,
            num_experts=128, num_experts_per_tok=8, max_position_embeddings=128)
# Of sums and roundings that differ. In bfloat16 there is one layer: roundings of the first could change which
# experts a second chooses.
LIMITS = {torch.float32: 2e-5, torch.bfloat16: 3e-2}
LAYERS = {torch.float32: 2, torch.bfloat16: 1}


def model_of(name, sizes, dtype, device):
    sizes = {**sizes, "num_hidden_layers": LAYERS[dtype]}
    if "layer_types" in sizes:
        sizes["layer_types"] = sizes["layer_types"][: LAYERS[dtype]]
    config = getattr(transformers, name + "Config")(**sizes)
    torch.manual_seed(1)
    model = getattr(transformers, name + "ForCausalLM")(config)
    with torch.no_grad():  # routers and experts that differ, whatever the model starts with
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
    return model.to(device, dtype)


def step(model, implementation, tokens):
    """Logits, and gradients by name."""
    model.set_experts_implementation(implementation)
    model.zero_grad()
    result = model(tokens, labels=tokens)
    result.loss.backward()
    with torch.no_grad():
        logits = model(tokens).logits.float()
    return {"logits": logits, "logits, training": result.logits.float().detach(),
            **{name: p.grad.float() for name, p in model.named_parameters() if p.grad is not None}}


def error(got, want):
    return max(((got[name] - want[name]).norm() / want[name].norm().clamp(min=1e-12)).item() for name in want)


def check(name, sizes, dtype, device):
    model, worst = model_of(name, sizes, dtype, device), {}
    tokens = torch.randint(0, sizes["vocab_size"], (2, 64), device=device)
    want = step(model, "eager", tokens)
    for implementation in "batchgemm", "grouped_mm":
        try:
            got = step(model, implementation, tokens)
            assert got.keys() == want.keys(), got.keys() ^ want.keys()
            worst[implementation] = error(got, want)
        except (RuntimeError, ImportError) as refused:
            if implementation == "batchgemm":
                raise
            worst[implementation] = str(refused).splitlines()[0][:40]
    fine = worst["batchgemm"] <= LIMITS[dtype]
    print(f"{name:12}{str(dtype)[6:]:10}{device:6}{worst['batchgemm']:12.2e}  {worst['grouped_mm']}"
          f"{'' if fine else '   TOO FAR'}", flush=True)
    return fine


def main():
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}")
    print(f"{'model':12}{'type':10}{'on':6}{'batchgemm':>12}  grouped_mm, both from eager")
    devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    fine = [check(name, sizes, dtype, device) for name, sizes in MODELS.items() for device in devices
            for dtype in LIMITS if device == "cuda" or dtype == torch.float32]
    if "--full" in sys.argv:
        fine.append(check("Qwen3Moe", FULL, torch.bfloat16, devices[-1]))
    sys.exit(not all(fine))


if __name__ == "__main__":
    main()
