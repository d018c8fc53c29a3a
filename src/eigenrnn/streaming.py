"""Streams: a layer or a model that processes one time step at a time and keeps its state."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from eigenrnn.closed_loop import Feedback, Rollout, checked_feedback, closed_loop
from eigenrnn.errors import check_positive_integer
from eigenrnn.fitted_network import fitted_network
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.stepping import Snapshot, addresses, can_read, take_snapshot
from eigenrnn.layers.validation import check_h0, check_pair, check_step
from eigenrnn.models import SequenceModel
from eigenrnn.ops.dispatch import in_forced_block
from eigenrnn.residual_stack import ResidualStack
from eigenrnn.torch_internals import contents, hooks_of_call
from eigenrnn.tracing import is_eager, under_transform

__all__ = ["Stream"]

State = Tensor | tuple[Tensor, Tensor]
Model = Stacked[Any] | ResidualStack | SequenceModel


class Stream:
    r"""Runs a layer or a model one time step per call, and keeps its state.

    .. math:: (y_t, h_t) = \text{step}(x_t, h_{t-1})

    Call it with the inputs of one time step, and it returns the outputs. They equal those of the
    whole sequence: the outputs of an RNN, a GRU or an LSTM bit by bit if the compiled kernels
    compute both, without gaps and, for ``state="current"``, from the state zero; all others up to
    rounding. Freeze the layer first. The kernels then keep the
    weights packed, and notice when one of them changes, or the head. Make a new stream after
    replacing another part of the model. A layer that is not frozen evaluates its constraints at
    every step.

    Stacks of torch's layers or of layers that are stacks themselves, an `RNN` with complex states,
    noise in evaluation, 16-bit weights, other devices and other backends take the slower path of
    `step` in the layer. So does every step inside autocast or `torch.compile`. A transform of
    `torch.func` is refused: its tensors must not outlive it, and the stream would keep one as its
    state. Steps record gradients only after an input that requires one, and stop at `reset` or
    when the state is set.

    The stream of a fitted classifier or regressor takes unscaled inputs in double precision, NaN
    where one is missing, and returns its probabilities or its numbers.

    A stream must not be called by two threads at once. Several streams may share one model.
    Another thread may call `freeze()` or `train()` of the model meanwhile; each step uses the
    weights from before or after that call.

    Args:
        model: A recurrent layer of eigenrnn with one direction, a `ResidualStack`, or a
            `SequenceModel` around one of them. A model applies its head at every step; its
            `readout` is ignored. Layers of torch are accepted inside a `ResidualStack` only. Or a
            fitted `SequenceClassifier` or `SequenceRegressor`.
        batch_size: The number B of sequences that run side by side; by default a single one, whose
            tensors have no batch axis.
    Shape:
        x_t: :math:`(M,)`, or :math:`(B, M)`; the dtype of the weights.
        y_t: :math:`(K,)`, or :math:`(B, K)`; without a head K is the output size of the layer.
        state: :math:`(L, N)`, or :math:`(L, B, N)`, as h_n of the layer; of an LSTM a pair (h, c).
        In place of N, S if the states of the layer have S numbers. A state of 16 bits is rounded
        at each step.
    Raises:
        TypeError: If the model is none of ours, or an input is not dense or has another dtype than
            the weights.
        ValueError: If the layer is bidirectional, the model or the layer has a hook, a shape is
            wrong, or the states of the sequences do not fit into memory.
        RuntimeError: If it is called inside a transform of `torch.func`.
    Example:
        >>> layer = RNN(2, 8).freeze()
        >>> stream, x = Stream(layer), torch.randn(5, 2)
        >>> outputs = torch.stack([stream(x_t) for x_t in x])
        >>> torch.allclose(outputs, layer(x)[0])
        True
        >>> state = stream.state  # a copy, to go on from later
        >>> stream.reset()
    """

    def __new__(cls, model: Any, batch_size: int | None = None) -> "Stream":  # noqa: ARG004
        """Make a stream of an estimator, if the model is one."""
        if cls is Stream and not isinstance(model, nn.Module):
            return super().__new__(cast("Any", _EstimatorStream))
        return super().__new__(cls)

    def __init__(self, model: Any, batch_size: int | None = None) -> None:
        layer: object = model
        head: nn.Module | None = None
        if isinstance(model, SequenceModel):
            layer = model.layer
            head = model.head
        if not isinstance(layer, Stacked | ResidualStack):
            raise TypeError(
                "expected a recurrent layer of eigenrnn, a ResidualStack, or a SequenceModel with "
                f"one of them, got {type(layer).__name__}"
            )
        if layer.bidirectional:
            raise ValueError("expected a layer of one direction, got a bidirectional one")
        if any(hooks_of_call(model)) or any(hooks_of_call(layer)):
            raise ValueError(
                "expected a model and a layer without hooks, as a step is no call of theirs, got "
                "one: remove it"
            )
        if batch_size is not None:
            check_positive_integer("batch_size", batch_size)
        self.model = model
        self.batch_size = batch_size
        self._layer: Stacked[Any] | ResidualStack = layer
        self._head = head
        # asked at each step for the head, which the user may replace
        _, _, self._modules = contents(model)
        self._batch: tuple[int, ...] = () if batch_size is None else (batch_size,)
        self._input_shape = (*self._batch, layer.input_size)
        self._snapshot: Snapshot | None = None  # set if the kernels can compute the next step
        self.reset()

    def __call__(
        self,
        x_t: Tensor,  # (M,) or (B, M)
        dt: Tensor | None = None,  # () or (B,)
    ) -> Tensor:  # (K,) or (B, K)
        """Process one time step and return its outputs.

        `dt` is the time since the step before, for layers that know what a gap does, see
        `Stacked.forward`.
        """
        snapshot = self._snapshot
        gaps = None
        if (
            snapshot is None
            or (self._head is not None and self._modules["head"] is not self._head)
            or not can_read(x_t, self._input_shape, snapshot.dtype, torch.is_grad_enabled())
            or not is_eager()
            or in_forced_block()
        ):
            return self._ordinary_step(x_t, dt)
        if dt is not None:
            gaps = snapshot.readable_gaps(dt, self._batch)
            if gaps is None:
                return self._ordinary_step(x_t, dt)
        y = torch.empty_like(self._like_output)
        B, M, threads = self._sizes
        h, cell, next_h, next_cell = self._places  # `*self._places` in the call takes longer
        stack = snapshot.stack
        x = x_t.data_ptr()
        gap = 0 if gaps is None else gaps.data_ptr()
        if not stack.step(B, x, M, h, cell, next_h, next_cell, y.data_ptr(), gap, threads):
            self._snapshot = None  # a weight has changed
            return self._ordinary_step(x_t, dt)
        # the states before this step get those after the next one
        self._states, self._spare = self._spare, self._states
        self._places, self._spare_places = self._spare_places, self._places
        return y

    def rollout(self, x: Tensor, steps: int, *, feedback: Feedback | None = None) -> Rollout:
        """Process a sequence, and then the own outputs; the stream goes on from there.

        Args:
            x: What it reads first, (T, M), or (T, B, M); at least one step.
            steps: The number S of outputs; the first follows the last step of x.
            feedback: The function from the outputs of a step to the next inputs; the identity by
                default.
        Returns:
            The outputs and what was fed back, see `eigenrnn.closed_loop.rollout`. The last of the
            inputs has not been read yet.
        Raises:
            ValueError: If `steps` is not a positive integer, x has no step, or the outputs of a
                linear head do not fit the input; the stream is then as before.
        """
        check_positive_integer("steps", steps)
        feedback = checked_feedback(feedback, self._layer, self._head)
        if len(x) == 0:
            raise ValueError("expected at least one step to read, got none")
        for x_t in x[:-1]:
            self(x_t)
        return closed_loop(self(x[-1]), None, steps, feedback, lambda x_t, _: (self(x_t), None))

    @property
    def state(self) -> State:
        """The state of all layers, a copy. Set it to continue from another state."""
        h = self._states[0].clone()
        if len(self._states) == 1:
            return h
        return h, self._states[1].clone()

    @state.setter
    def state(self, state: State) -> None:
        shapes = [tuple(each.shape) for each in self._states]
        dtype = self._states[0].dtype
        if len(shapes) == 1:
            check_h0(state, shapes[0], dtype)
            state = cast("Tensor", state)
        else:
            state = check_pair(state, shapes, dtype)
        device = self._states[0].device
        for each in _parts(state):
            if each.device != device:
                raise ValueError(f"expected a state on {device}, got one on {each.device}")
        self._keep(state, copy=True)

    def reset(self, rows: Tensor | Sequence[int] | Sequence[bool] | None = None) -> None:
        """Begin a new sequence, from the trained initial state or from zero.

        Args:
            rows: The sequences of the batch that begin anew, by number or as B booleans, such as
                the episodes that have ended; all of them by default. The others go on.
        Raises:
            ValueError: If `rows` are not some of the B sequences, or the stream has no batch.
        """
        if rows is not None and self.batch_size is None:
            raise ValueError(
                f"expected rows in a stream with a batch_size, got {rows!r} in one of a single "
                "sequence: call reset()"
            )
        with torch.no_grad():
            initial = self._layer.initial_state(self.batch_size)
        if rows is None:
            self._keep(initial, copy=True)
            return
        begins = self._mask(rows).unsqueeze(1)
        pairs = list(zip(_parts(initial), self._states, strict=True))
        # autograd goes on in the others, and torch lets nobody write to a tensor of inference mode
        if any(state.requires_grad or state.is_inference() for state in self._states):
            going_on = [torch.where(begins, first, state) for first, state in pairs]
            self._keep(going_on[0] if len(going_on) == 1 else (going_on[0], going_on[1]))
            return
        for first, state in pairs:
            torch.where(begins, first.detach(), state, out=state)

    def _mask(self, rows: Tensor | Sequence[int] | Sequence[bool]) -> Tensor:  # (B,)
        B = self.batch_size or 0
        device = self._states[0].device
        chosen = torch.as_tensor(rows, device=device)
        if chosen.dtype == torch.bool and chosen.shape == (B,):
            return chosen
        places = torch.arange(B, device=device)
        # not of floats or bytes, which may be flags; an empty list gives a tensor of floats
        if chosen.dim() == 1 and (chosen.dtype in _ROW_NUMBERS or not len(chosen)):
            mask = torch.isin(places, chosen)
            if bool(torch.isin(chosen, places).all()):
                return mask
        raise ValueError(
            f"expected rows as integers from 0 to {B - 1} or as {B} booleans, got {rows!r}"
        )

    def _keep(self, state: State, copy: bool = False) -> None:
        """Continue from a state, which nobody else may write to; a copy has no gradient."""
        states = _parts(state)
        if copy:
            states = tuple(each.detach().clone() for each in states)
        kept = [each.contiguous() for each in states]
        spare = [torch.empty_like(each) for each in kept]
        # Nothing may change before everything that can raise has run: the kernels would else write
        # to the addresses of the states that are gone.
        places: tuple[int, int, int, int] | None = None
        spare_places: tuple[int, int, int, int] | None = None
        if self._can_read(kept):
            places = addresses(kept, spare)
            spare_places = addresses(spare, kept)
        self._states = kept
        self._spare = spare
        if places is None or spare_places is None:
            self._snapshot = None
        else:
            self._places = places
            self._spare_places = spare_places

    def _can_read(self, states: Sequence[Tensor]) -> bool:
        """Whether the kernels can read the states, and autograd does not need them."""
        dtype = self._layer.weight_dtype  # autocast lets states of other dtypes in
        return all(
            type(each) is Tensor and each.is_cpu and each.dtype == dtype and not each.requires_grad
            for each in states
        )

    def _take_snapshot(self) -> bool:
        """Pack the weights as they are now; return whether that is possible."""
        if not self._can_read(self._states):
            return False
        snapshot = take_snapshot(self._layer, self._head)
        if snapshot is None:
            return False
        B = self.batch_size or 1
        # `empty_like` takes 0.7 us less than `new_empty`, a sixth of a small step
        shape = (*self._batch, snapshot.output_size)
        self._like_output = torch.empty(shape, dtype=snapshot.dtype, device="cpu")
        self._sizes = B, snapshot.input_size, snapshot.threads(B)
        self._snapshot = snapshot
        return True

    def _ordinary_step(self, x_t: Tensor, dt: Tensor | None = None) -> Tensor:
        """Pack the weights if that is possible, or else step as the layer does.

        Raises:
            ValueError: If the shape is wrong.
            RuntimeError: If a transform of `torch.func` is active.
        """
        if under_transform():
            raise RuntimeError(
                "expected a stream outside of torch.func transforms, which would leave one of "
                "their tensors in its state: transform a function of (x_t, state) that calls "
                "layer.step(x_t, state)"
            )
        check_step(x_t)
        if x_t.shape != self._input_shape:
            raise ValueError(f"expected x_t of shape {self._input_shape}, got {tuple(x_t.shape)}")
        if self._head is not None and self._modules["head"] is not self._head:
            self._head = self._modules["head"]
            self._snapshot = None
        if self._snapshot is None and self._take_snapshot():
            return Stream.__call__(self, x_t, dt)  # the stream of an estimator has scaled x_t
        # with trained weights, an endless stream would else keep the graph of all its steps
        given = [x_t, *self._states]
        if isinstance(dt, Tensor):
            given.append(dt)
        wanted = any(each.requires_grad for each in given)
        with torch.set_grad_enabled(wanted and torch.is_grad_enabled()):
            state = self._states[0]
            if len(self._states) > 1:
                state = tuple(self._states)
            y, state = self._layer.step(x_t, state, dt=dt)
            if self._head is not None:
                y = self._head(y)
        self._keep(state)
        return y

    def __reduce__(self) -> tuple[Any, ...]:
        # without the packed weights and the addresses, which mean nothing elsewhere
        with torch.no_grad():  # a copy of a state that carries a graph is none
            return _restore, (self.model, self.batch_size, self.state)


class _EstimatorStream(Stream):
    """A stream of unscaled inputs and of answers."""

    def __init__(self, model: Any, batch_size: int | None = None) -> None:
        self._network = fitted_network(model)
        self._last = self._network.mean  # of the right shape after `reset`
        super().__init__(self._network.model, batch_size)

    def __call__(self, x_t: Tensor, dt: Tensor | None = None) -> Tensor:
        shape = (*self._batch, len(self._network.mean))
        check_step(x_t)
        if x_t.shape != shape:
            raise ValueError(f"expected x_t of shape {shape}, got {tuple(x_t.shape)}")
        x, self._last = self._network.step(x_t, self._last)
        with torch.no_grad():
            return self._network.answers(super().__call__(x, dt))

    @property
    def state(self) -> Any:
        """The state of the network; with ``missing="forward"`` beside the last known values."""
        if self._network.missing == "forward":
            return super().state, self._last.clone()
        return super().state

    @state.setter
    def state(self, state: Any) -> None:
        last = self._last
        if self._network.missing == "forward":
            if not isinstance(state, tuple) or len(state) != 2:
                raise ValueError(
                    "expected what .state was, the state and the last known values, got a "
                    f"{type(state).__name__}"
                )
            state, last = state
            check_h0(last, tuple(self._last.shape), self._last.dtype)
        Stream.state.__set__(self, state)
        self._last = last.clone()

    def rollout(self, *_: Any, **__: Any) -> Rollout:
        raise TypeError("expected a stream of a layer or a model, got one of an estimator")

    def reset(self, rows: Tensor | Sequence[int] | Sequence[bool] | None = None) -> None:
        super().reset(rows)
        if rows is None:
            self._last = self._network.mean.new_zeros((*self._batch, len(self._network.mean)))
        else:
            self._last = torch.where(self._mask(rows).unsqueeze(1), 0.0, self._last)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("expected a stream of a layer or a model, got one of an estimator")


_ROW_NUMBERS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})


def _parts(state: State) -> tuple[Tensor, ...]:
    """Return the tensors of a state: one, or the pair of an LSTM."""
    if isinstance(state, tuple):
        return state
    return (state,)


def _restore(model: Model, batch_size: int | None, state: State) -> Stream:
    stream = Stream(model, batch_size)
    stream.state = state
    return stream
