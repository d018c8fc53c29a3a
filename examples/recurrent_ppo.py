"""Trains a policy by PPO to balance a pole whose velocities it does not see.

The environment is CartPole-v1, reduced to the position of the cart and the angle of the pole. A
policy must remember earlier observations to know how fast they change. Needs
``pip install gymnasium``.
"""

import argparse
import csv
import time
from itertools import pairwise
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.wrappers.vector import RecordEpisodeStatistics, TransformObservation
from torch import Tensor, nn

import eigenrnn

WIDTH = 64
GAMMA = 0.99  # the discount of rewards
LAMBDA = 0.95  # the discount of the errors of the values in an advantage
CLIP = 0.2  # how far the probability of an action may move in an update, relative to itself
EPOCHS = 4  # passes over a rollout
MINIBATCHES = 4  # of each pass
SEEN = [0, 2]  # of position, velocity, angle, angular velocity


class TorchGRU(nn.Module):
    """torch's GRU, called once for all steps between two with a reset in any sequence."""

    freeze = nn.Module.eval  # torch has no other preparation for single steps

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size)

    def forward(self, x: Tensor, h: Tensor, resets: Tensor) -> tuple[Tensor, Tensor]:
        later = resets[1:].any(1).nonzero().squeeze(1) + 1
        outputs = []
        for begin, end in pairwise([0, *later.tolist(), len(x)]):
            output, h = self.gru(x[begin:end], h * ~resets[begin].unsqueeze(1))
            outputs.append(output)
        return torch.cat(outputs), h

    def step(self, x: Tensor, h: Tensor, resets: Tensor) -> tuple[Tensor, Tensor]:
        output, h = self.gru(x.unsqueeze(0), h * ~resets.unsqueeze(1))
        return output.squeeze(0), h


class NoMemory(nn.Module):
    """A hidden layer without a state."""

    freeze = nn.Module.eval

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, hidden_size)

    def forward(self, x: Tensor, h: Tensor, resets: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return self.linear(x).tanh(), h

    step = forward


LAYERS = {"gru": eigenrnn.GRU, "scornn": eigenrnn.ScoRNN, "torch": TorchGRU, "none": NoMemory}


class Policy(nn.Module):
    """A layer between linear maps; its outputs give the logits of both actions and the value."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(len(SEEN), WIDTH), nn.Tanh())
        self.layer = LAYERS[layer](WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 3)

    def forward(
        self,
        x: Tensor,  # (T, B, 2)
        h: Tensor,  # (1, B, N)
        resets: Tensor,  # (T, B)
    ) -> tuple[Tensor, Tensor]:  # (T, B, 2), (T, B)
        output, _ = self.layer(self.encoder(x), h, resets=resets)
        y = self.head(output)
        return y[..., :2].log_softmax(-1), y[..., 2]

    @torch.no_grad()
    def step(self, x: Tensor, h: Tensor, resets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        output, h = self.layer.step(self.encoder(x), h, resets)
        y = self.head(output)
        return y[..., :2].log_softmax(-1), y[..., 2], h


class Actor:
    """A policy that acts in many environments; its states outlast a rollout.

    After the last observation of an episode, gymnasium ignores one action and returns the first
    observation of the next episode. The last observation thus has a value like any other, from
    which an episode that was cut at the time limit goes on. The loss leaves the ignored step out.
    """

    def __init__(self, policy: Policy, environments: int, seed: int) -> None:
        all_seen = gymnasium.make_vec(
            "CartPole-v1", environments, vectorization_mode="vector_entry_point"
        )
        seen = Box(-np.inf, np.inf, (len(SEEN),))
        some_seen = TransformObservation(
            all_seen, lambda x: x[:, SEEN], single_observation_space=seen
        )
        self.environments = RecordEpisodeStatistics(some_seen)
        self.policy = policy
        self.x = torch.from_numpy(self.environments.reset(seed=seed)[0])
        self.h = torch.zeros(1, environments, WIDTH)
        self.resets = torch.ones(environments, dtype=torch.bool)
        self.ended = torch.zeros(environments, dtype=torch.bool)

    def step(self, greedy: bool = False) -> dict[str, Tensor]:
        """Take a step in all environments; return what the loss needs of it."""
        log_probs, value, h = self.policy.step(self.x, self.h, self.resets)
        action = log_probs.argmax(-1) if greedy else torch.multinomial(log_probs.exp(), 1)[:, 0]
        taken = {"x": self.x, "resets": self.resets, "ignored": self.ended, "value": value}
        x, reward, terminated, truncated, _ = self.environments.step(action.numpy())
        self.x = torch.from_numpy(x)
        self.h = h
        self.resets = self.ended
        self.ended = torch.from_numpy(terminated | truncated)
        return taken | {
            "action": action,
            "log_prob": of_action(log_probs, action),
            "reward": torch.from_numpy(reward),
            "terminated": torch.from_numpy(terminated),
            "ended": self.ended,
        }

    def rollout(self, steps: int) -> dict[str, Tensor]:  # of (T, B, ...)
        """Take many steps, and add their advantages (Schulman et al., 2016)."""
        taken = [self.step() for _ in range(steps)]
        found: dict[str, Tensor] = {}
        for name in taken[0]:
            found[name] = torch.stack([step[name] for step in taken])
        _, next_value, _ = self.policy.step(self.x, self.h, self.resets)
        advantage = torch.zeros_like(next_value)
        advantages = []
        for step in reversed(taken):
            # the factor brings the values to the order of one
            reward = (1 - GAMMA) * step["reward"]
            error = reward + GAMMA * next_value * ~step["terminated"] - step["value"]
            advantage = error + GAMMA * LAMBDA * advantage * ~step["ended"]
            advantages.insert(0, advantage)
            next_value = step["value"]
        return found | {"advantage": torch.stack(advantages)}


def of_action(log_probs: Tensor, action: Tensor) -> Tensor:
    """Return the logarithms of the probabilities of the actions that were taken."""
    return log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)


def ppo_loss(policy: Policy, batch: dict[str, Tensor], h0: Tensor) -> Tensor:
    """Return the loss of PPO on whole sequences (Schulman et al., 2017)."""
    log_probs, value = policy(batch["x"], h0, batch["resets"])
    spread, mean = torch.std_mean(batch["advantage"][~batch["ignored"]])
    weight = (batch["advantage"] - mean) / (spread + 1e-8)
    ratio = (of_action(log_probs, batch["action"]) - batch["log_prob"]).exp()
    gain = torch.minimum(ratio * weight, ratio.clamp(1 - CLIP, 1 + CLIP) * weight)
    value_loss = (value - batch["value"] - batch["advantage"]).square()
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return (0.5 * value_loss - gain - 0.01 * entropy)[~batch["ignored"]].mean()


def greedy_return(policy: Policy, episodes: int, seed: int) -> float:
    """Return the mean return of episodes in which the policy takes its most probable actions."""
    policy.layer.freeze()
    actor = Actor(policy, episodes, seed)
    running = torch.ones(episodes, dtype=torch.bool)
    total = 0.0
    while running.any():
        step = actor.step(greedy=True)
        total += step["reward"][running].sum().item()
        running &= ~step["ended"]
    return total / episodes


def main() -> None:
    """Train a policy, store its learning curve and print its return."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layer", choices=LAYERS, default="gru")
    parser.add_argument("--updates", type=int, default=250, help="the number of rollouts")
    parser.add_argument("--steps", type=int, default=128, help="time steps of a rollout")
    parser.add_argument("--environments", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--curve", type=Path, default=Path("runs/recurrent_ppo.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)  # the calls are small, and the seconds are then those of one core
    torch.manual_seed(options.seed)
    policy = Policy(options.layer)
    optimiser = torch.optim.Adam(policy.parameters(), lr=options.lr)
    actor = Actor(policy, options.environments, options.seed)
    curve = []
    begin = time.process_time()
    for k in range(options.updates):
        h0 = actor.h
        policy.layer.freeze()  # its weights are packed once for all steps
        rollout = actor.rollout(options.steps)
        policy.train()
        optimiser.param_groups[0]["lr"] = options.lr * (1 - k / options.updates)
        for _ in range(EPOCHS):
            for chosen in torch.randperm(options.environments).chunk(MINIBATCHES):
                batch = {name: part[:, chosen] for name, part in rollout.items()}
                optimiser.zero_grad()
                ppo_loss(policy, batch, h0[:, chosen]).backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
                optimiser.step()
        taken = (k + 1) * options.steps * options.environments
        seconds = round(time.process_time() - begin, 2)
        # of the last 100 episodes
        mean_return = round(float(np.mean(actor.environments.return_queue)), 1)
        curve.append((taken, seconds, mean_return))
        if (k + 1) % 10 == 0:
            print("{:9,} steps  {:6.1f} s of a core  mean return {:5.1f}".format(*curve[-1]))
    options.curve.parent.mkdir(parents=True, exist_ok=True)
    with options.curve.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("steps", "seconds", "mean_return"))
        table.writerows(curve)
    print(f"greedy return {greedy_return(policy, 100, seed=1000 + options.seed):.1f}")


if __name__ == "__main__":
    main()
