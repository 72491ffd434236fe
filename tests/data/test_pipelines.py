"""Pipelines in their encoded columns, with what an encoder made of a feature as one player."""

import numpy as np
import pytest
from frame_cases import make_frame, make_pipeline_model
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import controlshap as cs


@pytest.fixture(scope="module")
def frame():
    return make_frame()


def test_the_encoded_space_groups_what_an_encoder_made(frame):
    full = make_frame(gaps=False)
    model = make_pipeline_model(full, MLPClassifier((8,), max_iter=200, random_state=0))
    space = cs.encoded_space(model)
    rows = space.transform(full)
    assert rows.shape[1] == 2 + 5 + 3 + 1
    assert space.groups == {
        "number__age": [0],
        "number__income": [1],
        "job": [2, 3, 4, 5, 6],
        "size": [7, 8, 9],
        "rest__member": [10],
    }
    encoded = cs.explain(space.model, rows[50:52], rows[:12], groups=space.groups, budget=2000, rng=0)
    raw = cs.explain(model, full.iloc[50:52], full.iloc[:12], budget=2000, rng=0)
    assert set(encoded.status) == {"exact"}
    # independent features: mixing encoded rows is mixing raw rows
    order = [
        encoded.feature_names.index(name) for name in ("number__age", "number__income", "job", "size", "rest__member")
    ]
    np.testing.assert_allclose(encoded.values[:, order], raw.values, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"drop": "first"}, {"drop": "if_binary"}, {"min_frequency": 0.1}])
def test_groups_of_an_encoder_alone(frame, settings):
    columns = ["job", "size", "member"]
    encoder = OneHotEncoder(**settings).fit(frame[columns])
    groups = cs.one_hot_groups(encoder)
    names = encoder.get_feature_names_out()
    assert sorted(c for columns in groups.values() for c in columns) == list(range(len(names)))
    for feature, positions in groups.items():
        assert all(names[c].startswith(f"{feature}_") for c in positions)
    behind = make_pipeline(encoder, StandardScaler(with_mean=False)).fit(frame[columns])
    assert cs.one_hot_groups(behind) == groups


def imputed(**settings):
    return make_pipeline(SimpleImputer(strategy="most_frequent", **settings), OneHotEncoder(handle_unknown="ignore"))


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([("a", imputed(), ["job"]), ("b", imputed(), ["size"])], {"job": 5, "size": 3}),
        ([("a", imputed(), [2, 3])], {"job": 5, "size": 3}),
        ([("a", imputed(), slice("job", "size"))], {"job": 5, "size": 3}),
        ([("a", imputed(), [False, False, True, True, False])], {"job": 5, "size": 3}),
        ([("a", OneHotEncoder(), ["job"]), ("b", OneHotEncoder(drop="first"), ["job"])], {"job": 9}),
    ],
)
def test_encoders_behind_imputers_know_their_features(parts, names):
    transformer = ColumnTransformer(parts, remainder="drop").fit(make_frame(gaps=False))
    groups = cs.one_hot_groups(transformer)
    assert {name: len(columns) for name, columns in groups.items()} == names
    assert sorted(c for columns in groups.values() for c in columns) == list(range(sum(names.values())))


def test_features_that_lost_their_names_are_kept_apart(frame):
    parts = [(name, imputed(add_indicator=True), [name]) for name in ("job", "income")]
    frame = frame.assign(
        income=frame["income"].round(), job=frame["job"].astype(object).where(frame["job"].notna(), np.nan)
    )
    transformer = ColumnTransformer(parts, remainder="drop").fit(frame)
    groups = cs.one_hot_groups(transformer)
    assert list(groups) == ["job 0", "job 1", "income 0", "income 1"]
    assert sorted(c for columns in groups.values() for c in columns) == list(
        range(len(transformer.get_feature_names_out()))
    )


def test_what_has_no_groups_is_left_alone_or_refused(frame):
    mixing = make_pipeline(OneHotEncoder(sparse_output=False), PolynomialFeatures(2)).fit(frame[["job", "member"]])
    assert all(len(columns) == 1 for columns in cs.one_hot_groups(mixing).values())
    with pytest.raises(cs.InvalidArgumentError, match=r"`pipeline` must be a fitted scikit-learn Pipeline.*Random"):
        cs.encoded_space(RandomForestClassifier())
    with pytest.raises(cs.InvalidArgumentError, match=r"`transformer` \(OneHotEncoder\) does not say"):
        cs.one_hot_groups(OneHotEncoder())
