-- Four statements: train on four fifths of the irises, measure on the rest, predict the rest, look at the predictions.

SELECT * EXCLUDE (part) FROM iris WHERE part <> 0
TO TRAIN DNNClassifier
WITH model.hidden_units = [32, 16], train.epoch = 60, train.batch_size = 16
LABEL species
INTO iris_model;

SELECT * EXCLUDE (part) FROM iris WHERE part = 0
TO EVALUATE iris_model
WITH validation.metrics = "Accuracy"
LABEL species
INTO iris_scores;

SELECT * EXCLUDE (part) FROM iris WHERE part = 0
TO PREDICT iris_predictions.predicted
USING iris_model;

SELECT species, predicted, count(*) AS flowers
FROM iris_predictions
GROUP BY ALL
ORDER BY ALL;
