"""shap's calls and plots."""
